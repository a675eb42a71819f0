"""Run and train transformer models, and read and change every intermediate value.

    import vitrine

    model = vitrine.load()
    print(model.generate("Once upon a time", max_tokens=40).text)
    logits, cache = model.run_with_cache("Once upon a time")
    print(cache["blocks.0.attn.hook_pattern"].shape)
"""

from __future__ import annotations

import os
import threading

from . import _engine
from ._errors import BadCheckpoint, BadInput, Error, OutOfCapacity, Unsupported
from ._model import (
    DEFAULT_MODEL,
    Generation,
    Hypothesis,
    Model,
    Prompt,
    Stream,
    TokenProbability,
    TokenReport,
    from_state_dict,
    load,
)
from ._sites import Hook, Site
from ._tensors import BFloat16
from ._tokenizer import Encoding, Tokenizer
from ._train import Step, Trainer, TrainResult, train

__version__ = _engine.version()
__all__ = [
    "DEFAULT_MODEL",
    "BFloat16",
    "BadCheckpoint",
    "BadInput",
    "Encoding",
    "Error",
    "Generation",
    "Hook",
    "Hypothesis",
    "Model",
    "OutOfCapacity",
    "Prompt",
    "Site",
    "Step",
    "Stream",
    "TokenProbability",
    "TokenReport",
    "Tokenizer",
    "TrainResult",
    "Trainer",
    "Unsupported",
    "from_state_dict",
    "load",
    "train",
]


def _note_main_thread() -> None:
    """The engine looks for Ctrl-C in calls on the main thread."""
    _engine.set_main_thread(threading.main_thread().ident or 0)


_note_main_thread()
os.register_at_fork(after_in_child=_note_main_thread)
