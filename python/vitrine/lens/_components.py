"""The parts of a model as attributes: ``model.blocks[0].attn.hook_z``, ``model.blocks[0].mlp.W_in``, ``model.ln_final``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from .hooked_transformer import HookedTransformer


class Component:
    """A part with a name: its hook points, weights and parts are attributes. Those in ``_CALLS`` can be called."""

    def __init__(self, model: HookedTransformer, name: str) -> None:
        self._model, self.name = model, name

    def __getattr__(self, name: str) -> Any:
        full = f"{self.name}.{name}"
        if full in self._model.mod_dict:
            return self._model.mod_dict[full]
        weight = self._model.weights.find(self.name, name)
        if weight is not None:
            return weight
        if any(own.startswith(f"{full}.") for own in self._model.mod_dict):
            return Component(self._model, full)
        raise AttributeError(f"{self.name} has no {name}")

    def __call__(self, value: Tensor) -> Tensor:
        if self.name not in _CALLS:
            raise NotImplementedError(f"{self.name} cannot be called on its own; run the model up to a layer")
        return _CALLS[self.name](self._model, value)

    @property
    def cfg(self) -> Any:
        return self._model.cfg

    @property
    def QK(self) -> Any:
        return self._model.QK[int(self.name.split(".")[1])]

    @property
    def OV(self) -> Any:
        return self._model.OV[int(self.name.split(".")[1])]

    def __repr__(self) -> str:
        return f"<{self.name}>"


def _embed(model: HookedTransformer, tokens: Tensor) -> Tensor:
    return model.value_of(tokens, "hook_embed")


def _pos_embed(model: HookedTransformer, tokens: Tensor) -> Tensor:
    return model.value_of(tokens, "hook_pos_embed")


def _ln_final(model: HookedTransformer, stream: Tensor) -> Tensor:
    return model.end_of(stream, "ln_final.hook_out")


def _unembed(model: HookedTransformer, normed: Tensor) -> Tensor:
    return model.end_of(normed, "unembed.hook_out", at="unembed.hook_in")


_CALLS = {"embed": _embed, "pos_embed": _pos_embed, "ln_final": _ln_final, "unembed": _unembed}
