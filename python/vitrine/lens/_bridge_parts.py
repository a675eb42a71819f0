"""The parts of a bridge as modules: ``bridge.blocks[0].attn.hook_z``, ``bridge.blocks[0].mlp.W_in``, ``bridge.ln_final``."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from ._components import call_part

#: Weights that the bridge has by key-value heads, not repeated for the query heads.
_OF_GROUPS = {"W_K": "_W_K", "W_V": "_W_V", "b_K": "_b_K", "b_V": "_b_V"}


class Part(nn.Module):
    """A part with a name: its hook points, weights and parts are attributes. What TransformerLens can call can be called,
    and is computed by the engine."""

    hook_out_is_single_residual_stream = True

    def __init__(self, bridge: nn.Module, name: str) -> None:
        super().__init__()
        object.__setattr__(self, "_bridge", weakref.ref(bridge))
        self.name = name

    def forward(self, *values: Any, **named: Any) -> Tensor:
        return call_part(self._bridge(), self.name, *values, **named)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            bridge = self.__dict__["_bridge"]()
            own = self.__dict__.get("name", "")
            canonical = None if bridge is None else bridge.names.aliases.get(f"{own}.{name}")
            if canonical is not None:
                return bridge._hook_registry[canonical]
            weight = None if bridge is None else bridge.weights.find(own, _OF_GROUPS.get(name, name))
            if weight is None:
                raise
            return weight


def add_points(bridge: nn.Module, points: Mapping[str, nn.Module]) -> None:
    """Adds modules for the parts of all names."""
    for name, point in points.items():
        *parts, last = name.split(".")
        at: nn.Module = bridge
        for i, part in enumerate(parts):
            if part not in at._modules:
                is_list = part in ("blocks", "encoder", "decoder") and i == 0
                at.add_module(part, nn.ModuleList() if is_list else Part(bridge, ".".join(parts[: i + 1])))
            at = at._modules[part]  # type: ignore[assignment]
        at.add_module(last, point)
