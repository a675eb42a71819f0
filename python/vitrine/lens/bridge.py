"""TransformerLens 4's bridge on vitrine's engine: boot_vitrine() instead of TransformerBridge.boot_transformers().

    from vitrine.lens.bridge import boot_vitrine

    bridge = boot_vitrine("path/to/a/folder or file")
    logits, cache = bridge.run_with_cache("Once upon a time")

It needs the package transformer-lens, version 4.3. docs/lens.md lists what differs."""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.hook_points import HookIntrospectionMixin
from transformer_lens.hook_points import HookPoint as TheirHookPoint
from transformer_lens.model_bridge.architecture_adapter import ArchitectureAdapter
from transformer_lens.model_bridge.bridge_core import BridgeCore
from transformer_lens.model_bridge.driver_protocol import validate_driver

from .._errors import BadInput, Unsupported
from .._model import Model, load
from ._bridge_parts import Part, add_points
from ._driver import VitrineDriver
from ._generate import GenerateMixin
from ._parts import PartsMixin
from ._text import TextMixin
from ._weights import WeightsMixin
from .config import config_of
from .hook_points import HookPoint
from .hooked_transformer import find_checkpoint

__all__ = ["VitrineBridge", "VitrineDriver", "boot_vitrine"]


class _Adapter(ArchitectureAdapter):
    """What BridgeCore and the tools ask an architecture. Vitrine's model has no modules to map."""

    supports_hf_output_attentions = False

    def __init__(self, config: TransformerBridgeConfig) -> None:
        super().__init__(config)
        self.component_mapping: dict[str, Any] = {}
        self.bridge: VitrineBridge | None = None

    def apply_output_logits_transform(self, logits: Tensor) -> Tensor:
        """The logits of the model from the products of the unembedding: scaled, softcapped."""
        assert self.bridge is not None
        return self.bridge.end_of(logits, "hook_logits", at="unembed.hook_out")


class VitrineBridge(
    TextMixin, WeightsMixin, PartsMixin, GenerateMixin, BridgeCore, HookIntrospectionMixin, nn.Module
):
    """A bridge over a VitrineDriver. Hooks of both directions change the computation. It is a module without parameters
    of PyTorch; ``parameters()`` are copies of the weights."""

    def __init__(self, driver: VitrineDriver, tokenizer: Any = None) -> None:
        nn.Module.__init__(self)
        self.model, self._engine, self.weights = driver.model, driver._engine, driver.weights
        adapter = _Adapter(driver.bridge_config)
        BridgeCore.__init__(self, adapter, None, driver)
        object.__setattr__(adapter, "bridge", self)
        self.names = driver.names
        for name in self.names.sites:
            point = TheirHookPoint()
            point.name = name
            self._hook_registry[name] = point
        self._hook_registry_initialized = True
        self.hook_aliases = dict(self.names.aliases)
        add_points(self, self._hook_registry)
        self.set_tokenizer(tokenizer)
        driver.tokenizer = self.tokenizer
        self.eval()
        validate_driver(driver, after_bridge_construction=True)

    # BridgeCore's setter is for tokenizers of transformers.
    @property
    def tokenizer(self) -> Any:
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, value: Any) -> None:
        self._tokenizer = value

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            canonical = self.__dict__.get("hook_aliases", {}).get(name)
            if canonical is None:
                raise
            return self._hook_registry[canonical]

    def forward(
        self,
        input: Any = None,
        *,
        return_type: str | None = "logits",
        loss_per_token: bool = False,
        prepend_bos: bool | None = None,
        padding_side: str | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        input_ids: Any = None,
        tokens: Any = None,
        start_at_layer: int | None = None,
        stop_at_layer: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Logits `[batch, pos, d_vocab]`, the loss, both, or None; with ``stop_at_layer``, the stream before that layer.
        With ``start_at_layer``, ``input`` is the stream before that layer. ``capture`` and ``intervene`` are those of
        the driver, whose captured values stay in ``bridge.captured``."""
        given = input_ids if input is None else input
        ids, stream, mask = tokens, None, attention_mask
        if start_at_layer is not None:
            stream = torch.as_tensor(given)
        elif given is None:
            raise BadInput("[input] expected a text, texts or tokens, got none")
        else:
            side = self.padding_side if padding_side is None else padding_side
            ids = self._tokens(given, prepend_bos, side)
            mask = self._mask(ids, prepend_bos, side, attention_mask, False)
        stop = self._stop(stop_at_layer)
        result = self._driver.forward(
            ids, points=self.live_points(), stream=stream, start_at_layer=start_at_layer, stop_at_layer=stop,
            attention_mask=mask, **kwargs,
        )
        self.captured: Mapping[str, Any] = result.captured
        if stop is not None:
            return result.logits
        return self._finalize_return(
            return_type, result.logits, ids, attention_mask=mask, labels=labels, loss_per_token=loss_per_token
        )

    def _stop(self, layer: int | None) -> int | None:
        if layer is None or layer >= self.cfg.n_layers:
            return None
        return layer + self.cfg.n_layers if layer < 0 else layer

    def live_points(self) -> dict[str, HookPoint]:
        live: dict[str, HookPoint] = {}
        for name, point in self._hook_registry.items():
            if (point.fwd_hooks or point.bwd_hooks) and self._gated_hook_reason(name) is None:
                site = self.names.sites[name]
                at = live.setdefault(site, HookPoint(site))
                middle = f"{name.removesuffix('ln2.hook_in')}hook_resid_mid"
                if name.endswith("ln2.hook_in") and point.fwd_hooks and self.names.has(middle):
                    _add_middle_hooks(live.setdefault(middle, HookPoint(middle)), at, point)
                    _add_hooks(at, point, "bwd")
                else:
                    _add_hooks(at, point, "fwd")
                    _add_hooks(at, point, "bwd")
        return live

    def has_site(self, name: str) -> bool:
        return self.names.has(name)

    def parameters(self, recurse: bool = True) -> Any:
        return WeightsMixin.parameters(self)

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Any:
        return self._driver.named_parameters(prefix)

    def state_dict(self, *_: Any, **__: Any) -> Any:
        return WeightsMixin.state_dict(self)

    @property
    def W_E(self) -> Tensor:
        """`[d_vocab, d_model]`, as in the file: without the scale of the embedding."""
        return self._weight("embed", "W_E") / self.model.info()["config"]["embedding_scale"]

    @property
    def W_K(self) -> Tensor:
        """`[n_layers, n_key_value_heads, d_model, d_head]`, as W_V."""
        return self._stack("attn", "_W_K")

    @property
    def W_V(self) -> Tensor:
        return self._stack("attn", "_W_V")

    def blocks_with(self, part: str) -> list[tuple[int, Part]]:
        """The blocks that have a part of this name, with their numbers."""
        return [(i, block) for i, block in enumerate(self.blocks) if part in block._modules]

    def enable_compatibility_mode(self, *_: Any, **__: Any) -> None:
        raise Unsupported("[enable_compatibility_mode] vitrine does not process weights: they are the checkpoint's")

    def set_use_attn_in(self, use_attn_in: bool) -> None:
        if use_attn_in and self.cfg.n_key_value_heads is not None:
            raise Unsupported("[set_use_attn_in] use_split_qkv_input with grouped-query attention")
        self.cfg.use_attn_in = use_attn_in


def _add_hooks(to: HookPoint, point: TheirHookPoint, direction: Literal["fwd", "bwd"]) -> None:
    """The functions of a hook point of TransformerLens, which they are given as their ``hook``."""
    for handle in point.fwd_hooks if direction == "fwd" else point.bwd_hooks:
        own: Any = handle.user_hook
        to.add_hook(lambda value, hook, own=own: own(value, hook=point), direction)  # type: ignore[misc]


def _add_middle_hooks(stream: HookPoint, norm: HookPoint, point: TheirHookPoint) -> None:
    """The functions at the input of the MLP's norm. With boot_transformers(), a tensor that they return goes to the MLP
    only, but what they write into the value is also in the stream, because it is the same tensor."""
    returned: list[Tensor] = []

    def at_stream(value: Tensor, hook: HookPoint) -> Tensor:
        result = value
        returned.clear()
        for handle in point.fwd_hooks:
            own: Any = handle.user_hook
            changed = own(result, hook=point)
            result = result if changed is None else changed
        if result is not value:
            returned.append(result)
        return value

    stream.add_hook(at_stream)
    norm.add_hook(lambda value, hook: returned[0] if returned else None)


def boot_vitrine(
    model: str | Path | Model | None = None, tokenizer: str | Path | None = None, **options: Any
) -> VitrineBridge:
    """A bridge to a checkpoint that vitrine reads: a folder, a `.gguf` or llama2.c file, or a name in the local Hugging
    Face cache, which is not downloaded; None: the default model. ``options`` are those of vitrine.load()."""
    if not isinstance(model, Model):
        path = None if model is None else find_checkpoint(str(model))
        model, name = load(path, tokenizer, **options), str(model or "default")
    else:
        name = "custom"
    own = config_of(model, name)
    values = own.to_dict()
    values["architecture"] = own.original_architecture or str(model.config.get("model_type", "vitrine"))
    config = TransformerBridgeConfig.from_dict(values)
    try:
        tokens: Any = model.tokenizer
    except BadInput:
        tokens = None
    return VitrineBridge(VitrineDriver(model, config, tokens), tokens)
