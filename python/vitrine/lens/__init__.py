"""TransformerLens's HookedTransformer on vitrine's engine. A notebook for TransformerLens 3.9 runs with

    import vitrine.lens as transformer_lens

and a model that is a folder, or a name in the local Hugging Face cache. It needs PyTorch. docs/lens.md lists the calls.
"""

from __future__ import annotations

import sys

from . import head_detector, hook_points, patching, utils
from ._positions import TransformerLensKeyValueCache
from ._slice import Slice
from .activation_cache import ActivationCache
from .config import HookedTransformerConfig
from .factored_matrix import FactoredMatrix
from .hook_points import HookPoint
from .hooked_root_module import HookedRootModule
from .hooked_transformer import HookedTransformer

utilities = utils
sys.modules[f"{__name__}.utilities"] = utils  # `from vitrine.lens.utilities import …`

__all__ = [
    "ActivationCache",
    "FactoredMatrix",
    "HookPoint",
    "HookedRootModule",
    "HookedTransformer",
    "HookedTransformerConfig",
    "Slice",
    "TransformerLensKeyValueCache",
    "head_detector",
    "hook_points",
    "patching",
    "utilities",
    "utils",
]
