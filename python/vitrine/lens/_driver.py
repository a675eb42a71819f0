"""TransformerLens 4's driver protocol on vitrine's engine."""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformer_lens.model_bridge.driver_protocol import ForwardResult
from transformer_lens.model_bridge.sources._driver_base import DriverBase

from .._errors import BadInput, Unsupported
from .._model import Model
from . import _sites
from ._bridge_names import BridgeNames
from ._positions import Positions, is_joined
from ._run import Pass, Span, run_pass
from ._weights import Weights, WeightsMixin
from .hook_points import HookPoint

#: The operations of a specification, each with the keys that it needs.
_OPERATIONS = {"suppress": (), "scale": ("factor",), "add": ("value",), "set": ("value",)}


class VitrineDriver(WeightsMixin, DriverBase):
    """Runs passes of a model. Hook points have TransformerLens 4's canonical names, its legacy names, or the names of
    vitrine's sites."""

    _supported_features = frozenset(
        {"gradients", "parameters", "state_dict", "weight_access", "intervention_callbacks"}
    )
    provides_sequence_logits = True

    def __init__(self, model: Model, config: Any, tokenizer: Any = None) -> None:
        DriverBase.__init__(self, config, tokenizer)
        self.model, self._engine, self.cfg = model, model._engine, config
        self.weights = Weights(self._engine, config)
        self.names = BridgeNames(_sites.names_of(self._engine), config.n_layers)
        self.supported_hook_points = frozenset([*self.names.sites, *self.names.aliases])
        self.last: Pass | None = None  # the last one with hooks, whose backward may begin at a value that one has kept
        self._is_closed = False

    def forward(
        self,
        input_ids: Any = None,
        *,
        capture: tuple[str, ...] = (),
        intervene: Mapping[str, Any] | None = None,
        max_new_tokens: int = 1,
        return_logits: bool = True,
        attention_mask: Any = None,
        points: Mapping[str, HookPoint] | None = None,
        stream: Tensor | None = None,
        start_at_layer: int | None = None,
        stop_at_layer: int | None = None,
        **kwargs: Any,
    ) -> ForwardResult:
        """Runs tokens `[batch, pos]`, or from ``start_at_layer`` on the stream `[batch, pos, d_model]`.

        ``intervene`` maps hook points to functions of a value, or to specifications: ``{"op": "suppress"}``,
        ``{"op": "scale", "factor": F}``, ``{"op": "add" or "set", "value": V}``, each with ``"pos"``, a position or a
        list of them. V is a number or has the value's shape after batch and position, flat or not. ``capture`` returns
        values after interventions and hooks. ``points`` are further hooks, by sites. The logits, or with
        ``stop_at_layer`` the stream before that layer, and captured values belong to PyTorch's graph if gradients are
        enabled. Throws NotImplementedError for an argument that is not served, KeyError for a name without a site."""
        if self._is_closed:
            raise RuntimeError("the driver is closed")
        if max_new_tokens != 1:
            raise Unsupported("[max_new_tokens] expected 1: use generate() of the bridge")
        wrong = [name for name, value in kwargs.items() if value not in (None, False)]
        if wrong:
            raise Unsupported(f"[{', '.join(wrong)}] expected no such argument of a forward")
        mask = None if attention_mask is None else torch.as_tensor(np.asarray(attention_mask))
        live, captured = self._points(points or {}, intervene or {}, capture)
        start, stop = self._layer(start_at_layer), self._layer(stop_at_layer)
        if start is None:
            if input_ids is None:
                raise BadInput("[input_ids] expected tokens [batch, pos], got none")
            ids = torch.as_tensor(input_ids if isinstance(input_ids, Tensor) else np.asarray(input_ids)).long()
            ids = ids[None] if ids.ndim == 1 else ids
        else:
            if stream is None or (mask is not None and not bool(mask.all())):
                raise Unsupported("[start_at_layer] expected a stream, and no padding")
            ids, mask = torch.zeros(stream.shape[:2], dtype=torch.long), None
        if mask is not None and mask.shape != ids.shape:
            raise BadInput(f"[attention_mask] expected shape {list(ids.shape)}, got {list(mask.shape)}")
        first, last = -1 if start is None else start, self.cfg.n_layers + 1 if stop is None else stop
        live = {name: own for name, own in live.items() if first <= _sites.layer_of(name, self.cfg.n_layers) < last}
        self.weights.check_unchanged()
        span = Span(start, None if stop is None else _sites.stream_before(stop))
        result, own = run_pass(self._engine, ids, live, span, stream, Positions.of_mask(mask))
        if own.edits:
            self.last = own
        return ForwardResult(logits=result if return_logits else None, captured=captured)

    def close(self) -> None:
        self.last, self._is_closed = None, True

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Every weight as float32, dequantized, under TransformerLens's name."""
        return ((prefix + name, value) for name, value in WeightsMixin.named_parameters(self))

    def _layer(self, layer: int | None) -> int | None:
        if layer is None:
            return None
        found = layer + self.cfg.n_layers if layer < 0 else layer
        return found if found < self.cfg.n_layers else None

    def _points(
        self, points: Mapping[str, HookPoint], intervene: Mapping[str, Any], capture: tuple[str, ...]
    ) -> tuple[dict[str, HookPoint], dict[str, Tensor]]:
        live = {}
        for name, point in points.items():
            live[name] = HookPoint(name)
            live[name].fwd_hooks, live[name].bwd_hooks = list(point.fwd_hooks), list(point.bwd_hooks)
        captured: dict[str, Tensor] = {}
        for name, change in intervene.items():
            site = self.names.site_of(name)
            live.setdefault(site, HookPoint(site)).add_hook(_changer(name, site, change))
        for name in capture:
            site = self.names.site_of(name)
            live.setdefault(site, HookPoint(site)).add_hook(_keeper(name, captured))
        return live, captured


def _keeper(name: str, captured: dict[str, Tensor]) -> Callable[..., None]:
    def keep(value: Tensor, hook: HookPoint) -> None:
        captured[name] = value

    return keep


def _changer(name: str, site: str, change: Any) -> Callable[..., Any]:
    """A hook of a function or a specification. Throws BadInput for one that is malformed."""
    if callable(change):
        return lambda value, hook: change(value)
    if not isinstance(change, Mapping) or change.get("op") not in _OPERATIONS:
        raise BadInput(f"[{name}] expected a function, or a mapping whose op is one of {', '.join(_OPERATIONS)}")
    needed = _OPERATIONS[change["op"]]
    wrong = set(change) - {"op", "pos", *needed}
    if wrong or any(key not in change for key in needed):
        keys = ", ".join(["op", *needed, "pos (optional)"])
        raise BadInput(f"[{name}] expected the keys {keys} for {change['op']}, got {', '.join(map(str, change))}")
    at = change.get("pos")
    places = None if at is None else [at] if isinstance(at, int) else list(at)
    if places is not None and not all(isinstance(own, int) and own >= 0 for own in places):
        raise BadInput(f"[{name}] pos: expected a position or a list of positions, got {at!r}")
    return lambda value, hook: _changed(name, site, value, change, places)


def _changed(name: str, site: str, value: Tensor, change: Mapping[str, Any], places: list[int] | None) -> Tensor:
    dim = 2 if is_joined(site, value.ndim) else 1
    length = value.shape[dim]
    if places is not None and any(own >= length for own in places):
        raise BadInput(f"[{name}] pos: expected positions below {length}, got {places}")
    index = (slice(None),) * dim + (slice(None) if places is None else places,)
    old = value[index]
    op = change["op"]
    if op == "suppress":
        new = torch.zeros_like(old)
    elif op == "scale":
        new = old * float(change["factor"])
    else:
        given = torch.as_tensor(change["value"], dtype=value.dtype)
        width = value.shape[dim + 1 :]
        if given.numel() == width.numel():
            given = given.reshape(width)
        elif given.numel() != 1:
            raise BadInput(f"[{name}] value: expected a number or {width.numel()} numbers, got {given.numel()}")
        new = old + given if op == "add" else given.expand_as(old)
    result = value.clone()
    result[index] = new
    return result
