"""The parts of a model as attributes: ``model.blocks[0].attn.hook_z``, ``model.blocks[0].mlp.W_in``, ``model.ln_final``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .._errors import Unsupported

if TYPE_CHECKING:
    from .hooked_transformer import HookedTransformer


class Blocks(list["Component"]):
    """The blocks of a model. As in PyTorch's ModuleList, their numbers are also attributes."""

    def __getattr__(self, name: str) -> Component:
        if name.isdecimal() and int(name) < len(self):
            return self[int(name)]
        raise AttributeError(f"blocks has no {name}")


class Component:
    """A part with a name: its hook points, weights and parts are attributes. Blocks and the parts in ``_CALLS`` can be
    called."""

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

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("_model", "name"):
            raise Unsupported(f"[{self.name}.{name}] expected no assignment: parts and weights are the checkpoint's")
        super().__setattr__(name, value)

    def __call__(self, value: Tensor | None = None, *others: Any, **named: Any) -> Tensor:
        return call_part(self._model, self.name, value, *others, **named)

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


def call_part(model: Any, name: str, value: Any = None, *others: Any, **named: Any) -> Tensor:
    """What the part of this name makes of its input. ``model`` has PartsMixin."""
    call = _CALLS.get(name if "blocks." not in name else name.split(".", 2)[-1])
    if name.count(".") == 1 and name.startswith("blocks."):
        call = _block
    if call is None:
        raise Unsupported(f"[{name}] expected a block, attention, an MLP, a norm or an embedding to be called")
    return call(model, name, _input_of(name, value, others, named))


def _input_of(name: str, value: Any, others: Sequence[Any], named: dict[str, Any]) -> Any:
    """The one input of a part. Attention may be given it three times, for queries, keys and values."""
    given = [own for own in (value, *others, *named.values()) if own is not None]
    first = given[0] if given else None
    if first is None or not all(own is first or (isinstance(own, Tensor) and torch.equal(own, first)) for own in given):
        raise Unsupported(f"[{name}] expected one input, the same for queries, keys and values, and no cache or mask")
    return first


def _embed(model: HookedTransformer, name: str, tokens: Tensor) -> Tensor:
    return model.value_of(tokens, "hook_embed")


def _pos_embed(model: HookedTransformer, name: str, tokens: Tensor) -> Tensor:
    return model.value_of(tokens, "hook_pos_embed")


def _ln_final(model: HookedTransformer, name: str, stream: Tensor) -> Tensor:
    return model.end_of(stream, "ln_final.hook_out")


def _unembed(model: HookedTransformer, name: str, normed: Tensor) -> Tensor:
    return model.end_of(normed, "unembed.hook_out", at="unembed.hook_in")


def _block(model: HookedTransformer, name: str, stream: Tensor) -> Tensor:
    return model.part_of(name, stream, f"{name}.hook_resid_post")


def _in_block(result: str, at: str | None) -> Callable[[HookedTransformer, str, Tensor], Tensor]:
    """A part whose input is the value of the site ``at`` of its block (None: the stream), and its output that of
    ``result``."""

    def call(model: HookedTransformer, name: str, value: Tensor) -> Tensor:
        block = ".".join(name.split(".")[:2])
        return model.part_of(name, value, f"{block}.{result}", None if at is None else f"{block}.{at}")

    return call


_CALLS: dict[str, Callable[[HookedTransformer, str, Any], Tensor]] = {
    "embed": _embed,
    "pos_embed": _pos_embed,
    "ln_final": _ln_final,
    "unembed": _unembed,
    "ln1": _in_block("ln1.hook_out", None),
    "attn": _in_block("attn.hook_out", "ln1.hook_out"),
    "ln2": _in_block("ln2.hook_out", "hook_resid_mid"),
    "mlp": _in_block("mlp.hook_out", "ln2.hook_out"),
}
