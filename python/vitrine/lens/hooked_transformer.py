"""TransformerLens's model, on the engine."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _engine
from .._errors import BadInput, Unsupported
from .._model import load
from . import _sites, utils
from ._components import Blocks, Component
from ._generate import GenerateMixin
from ._parts import PartsMixin
from ._positions import Positions, TransformerLensKeyValueCache
from ._run import Span, run_pass
from ._saes import SaeMixin
from ._text import USE_DEFAULT_VALUE, TextMixin
from ._weights import Weights, WeightsMixin
from .activation_cache import ActivationCache
from .config import config_of
from .hook_points import HookPoint
from .hooked_root_module import HookedRootModule

_FOLDING = (
    "fold_ln", "center_writing_weights", "center_unembed", "refactor_factored_attn_matrices", "fold_value_biases",
)


class Output(NamedTuple):
    logits: Tensor
    loss: Tensor


class HookedTransformer(TextMixin, WeightsMixin, PartsMixin, GenerateMixin, SaeMixin, HookedRootModule):
    """A model as TransformerLens 3.9 has it without processing of weights. Open it with from_pretrained()."""

    def __init__(self, path: str | Path | None, tokenizer: Any = None, name: str | None = None, **options: Any) -> None:
        default_prepend_bos = options.pop("default_prepend_bos", None)
        padding_side = options.pop("default_padding_side", None)
        self.model = load(path, tokenizer if isinstance(tokenizer, (str, Path)) else None, **options)
        self._engine: _engine.Model = self.model._engine
        self.cfg = config_of(self.model, name or str(path or "default"))
        if default_prepend_bos is not None:
            self.cfg.default_prepend_bos = default_prepend_bos
        self.weights = Weights(self._engine, self.cfg)
        names = _sites.names_of(self._engine)
        self.mod_dict = {own: HookPoint(own) for own in names}
        self.hook_dict = {own: point for own, point in self.mod_dict.items() if _sites.is_of_transformer_lens(own)}
        self._init_saes()
        self.blocks = Blocks(Component(self, f"blocks.{i}") for i in range(self.cfg.n_layers))
        self.set_tokenizer(tokenizer if hasattr(tokenizer, "encode") else self._own_tokenizer(), padding_side)

    def _own_tokenizer(self) -> Any:
        try:
            return self.model.tokenizer
        except BadInput:
            return None

    @classmethod
    def from_pretrained(cls, model_name: str | Path | None = None, **options: Any) -> HookedTransformer:
        """``model_name``: a folder, a file, or a name in the local Hugging Face cache; None: the default model. Flags
        that fold or center weights change nothing, and say so."""
        given = [flag for flag in _FOLDING if options.pop(flag, flag != "refactor_factored_attn_matrices")]
        if given:
            warnings.warn(
                f"vitrine.lens does not process weights: {', '.join(given)} changes nothing. The model is that of "
                "from_pretrained_no_processing().", stacklevel=2,
            )
        return cls._open(model_name, options)

    @classmethod
    def from_pretrained_no_processing(cls, model_name: str | Path | None = None, **options: Any) -> HookedTransformer:
        return cls._open(model_name, {key: value for key, value in options.items() if key not in _FOLDING})

    @classmethod
    def _open(cls, model_name: str | Path | None, options: dict[str, Any]) -> HookedTransformer:
        for ignored in ("device", "n_devices", "move_to_device", "hf_model", "trust_remote_code"):
            options.pop(ignored, None)
        if options.pop("dtype", "float32") not in ("float32", torch.float32):
            warnings.warn("vitrine.lens computes in float32", stacklevel=3)
        path = None if model_name is None else find_checkpoint(str(model_name))
        return cls(path, options.pop("tokenizer", None), name=None if model_name is None else str(model_name), **options)

    def __getattr__(self, name: str) -> Any:
        points = self.__dict__.get("mod_dict", {})
        if name in points:
            return points[name]
        if name in ("embed", "pos_embed", "unembed") or any(own.startswith(f"{name}.") for own in points):
            return Component(self, name)
        raise AttributeError(f"HookedTransformer has no {name}; docs/lens.md lists what vitrine.lens has")

    def __repr__(self) -> str:
        return f"<vitrine.lens.HookedTransformer: {self.cfg.model_name}>"

    # Passes

    def forward(
        self,
        input: str | Sequence[str] | Tensor,
        return_type: str | None = "logits",
        loss_per_token: bool = False,
        prepend_bos: bool | None = USE_DEFAULT_VALUE,
        padding_side: str | None = USE_DEFAULT_VALUE,
        start_at_layer: int | None = None,
        tokens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        stop_at_layer: int | None = None,
        past_kv_cache: TransformerLensKeyValueCache | None = None,
    ) -> Any:
        """Logits `[batch, pos, d_vocab]`, the loss, both, or None; with ``stop_at_layer``, the stream before that
        layer. With ``start_at_layer``, ``input`` is the stream before that layer."""
        start, stream, mask, positions = None, None, None, Positions()
        if start_at_layer is None:
            side = self.padding_side if padding_side is None else padding_side
            ids = tokens = self._tokens(input, prepend_bos, side)
            mask = self._mask(tokens, prepend_bos, side, attention_mask, past_kv_cache is not None)
            positions = Positions.of_mask(mask)
            if past_kv_cache is not None and mask is not None:
                ids, seen = past_kv_cache.extend(tokens, mask)
                positions = Positions.of_mask(seen, ids.shape[1] - tokens.shape[1])
        else:
            if past_kv_cache is not None or not Positions.of_mask(attention_mask).is_identity:
                raise Unsupported("[start_at_layer] expected no past_kv_cache and no padding on the left")
            start = start_at_layer + (self.cfg.n_layers if start_at_layer < 0 else 0)
            stream = torch.as_tensor(input)
            ids = torch.zeros(stream.shape[:2], dtype=torch.long) if tokens is None else tokens
        if stop_at_layer is not None:
            stop = len(range(self.cfg.n_layers)[:stop_at_layer])
            return self._run(ids, _sites.stream_before(stop), start, stream, stop, positions)
        logits = self._run(ids, None, start, stream, positions=positions)
        if return_type is None:
            return None
        if return_type == "logits":
            return logits
        if return_type not in ("loss", "both"):
            raise ValueError(f"Invalid return_type passed in: {return_type}")
        assert tokens is not None, "tokens must be passed in if return_type is 'loss' or 'both'"
        loss = self.loss_fn(logits, tokens, mask, loss_per_token)
        return loss if return_type == "loss" else Output(logits, loss)

    def loss_fn(
        self, logits: Tensor, tokens: Tensor, attention_mask: Tensor | None = None, per_token: bool = False
    ) -> Tensor:
        return utils.lm_cross_entropy_loss(logits, tokens, attention_mask, per_token)

    def has_site(self, name: str) -> bool:
        return name in self.mod_dict

    def live_points(self) -> dict[str, HookPoint]:
        return {
            name: point
            for name, point in self.mod_dict.items()
            if isinstance(point, HookPoint) and (point.fwd_hooks or point.bwd_hooks) and self.fires(name)
        }

    def _run(
        self, ids: Tensor, result: str | None, start: int | None = None, stream: Tensor | None = None,
        stop: int | None = None, positions: Positions = Positions(),  # noqa: B008
    ) -> Tensor:
        """A pass with the hooks of all layers from ``start`` to before ``stop``."""
        first, last = -1 if start is None else start, self.cfg.n_layers + 1 if stop is None else stop
        points = {
            name: point
            for name, point in self._with_saes(self.live_points(), ids).items()
            if first <= _sites.layer_of(name, self.cfg.n_layers) < last
        }
        self.weights.check_unchanged()
        value, own = run_pass(self._engine, ids, points, Span(start, result), stream, positions)
        if own.edits:
            self._last_edited = own  # a loss of a value that a hook has kept may have no result of the forward
        return value

    def run_with_cache(
        self, *model_args: Any, return_cache_object: bool = True, remove_batch_dim: bool = False, **kwargs: Any
    ) -> tuple[Any, Any]:
        """The result of a pass, and its values: an ActivationCache, or a dict."""
        result, cache = self._run_with_cache(*model_args, remove_batch_dim=remove_batch_dim, **kwargs)
        return result, ActivationCache(cache, self, not remove_batch_dim) if return_cache_object else cache

    # What PyTorch's modules have

    def to(self, *_: Any, **__: Any) -> HookedTransformer:
        return self

    def cpu(self) -> HookedTransformer:
        return self

    def eval(self) -> HookedTransformer:
        return self

    def cuda(self, device: Any = None) -> HookedTransformer:
        return self

    def train(self, mode: bool = True) -> HookedTransformer:
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Weights have no gradients."""

    def requires_grad_(self, requires_grad: bool = True) -> HookedTransformer:
        return self

    def set_use_attn_in(self, use_attn_in: bool) -> None:
        assert self.cfg.n_key_value_heads is None or not use_attn_in, "use split_qkv_input with grouped-query attention"
        self.cfg.use_attn_in = use_attn_in


_SHORT = {"gpt2-small": "gpt2"}


def find_checkpoint(name: str) -> Path:
    """A path, or the snapshot of a model in the local Hugging Face cache. Nothing is downloaded."""
    if Path(name).exists():
        return Path(name)
    home = os.environ.get("HF_HOME", "~/.cache/huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE", f"{home}/hub")).expanduser()
    wanted = _SHORT.get(name, name)
    pattern = f"models--{wanted.replace('/', '--')}" if "/" in wanted else f"models--*{wanted}"
    for folder in sorted(hub.glob(pattern)):
        if folder.name.rsplit("--", 1)[-1] != wanted.rsplit("/", 1)[-1]:
            continue
        ref = folder / "refs" / "main"
        snapshots = [folder / "snapshots" / ref.read_text().strip()] if ref.exists() else []
        for snapshot in [*snapshots, *sorted((folder / "snapshots").glob("*"))]:
            if (snapshot / "config.json").exists():
                return snapshot
    raise BadInput(f"[{name}] expected a folder, a file or a model in {hub}; vitrine downloads nothing")
