"""The parameters of a model, in TransformerLens's shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .. import _engine
from .._errors import BadInput, Unsupported
from .factored_matrix import FactoredMatrix

if TYPE_CHECKING:
    from .config import HookedTransformerConfig

#: Weight of a component → vitrine's name. Those of attention, `[heads · d_head, d_model]`, get a dimension of heads.
_OF_HEADS = {"W_Q": "wq.weight", "_W_K": "wk.weight", "_W_V": "wv.weight", "b_Q": "wq.bias", "_b_K": "wk.bias", "_b_V": "wv.bias"}
_OF_MLP = {"W_in": "w_up.weight", "W_gate": "w_gate.weight", "W_out": "w_down.weight", "b_in": "w_up.bias", "b_out": "w_down.bias"}
_OF_NORM = {"w": "weight", "b": "bias"}


class Weights:
    """Reads each parameter from the engine when it is first used, and keeps it."""

    def __init__(self, engine: _engine.Model, cfg: HookedTransformerConfig) -> None:
        self._engine, self._cfg = engine, cfg
        self._kept: dict[tuple[str, str], Tensor] = {}
        self._versions: dict[tuple[str, str], int] = {}

    def find(self, component: str, name: str) -> Tensor | None:
        """The weight ``name`` of a component, such as ``W_Q`` of ``blocks.3.attn``; None if it has no such weight."""
        key = component, name
        if key not in self._kept:
            found = self._find(component, name)
            if found is None:
                return None
            self._kept[key], self._versions[key] = found, found._version
        return self._kept[key]

    def check_unchanged(self) -> None:
        """Throws Unsupported if a notebook has written to a weight: the engine would not see it."""
        for (component, name), value in self._kept.items():
            if value._version != self._versions[component, name]:
                raise Unsupported(
                    f"[{component}.{name}] expected weights that are not written to: change values with hooks, or open a "
                    "model of changed tensors (vitrine.from_state_dict)"
                )

    def _find(self, component: str, name: str) -> Tensor | None:
        cfg, kind = self._cfg, component.rsplit(".", 1)[-1]
        if kind == "attn":
            return self._of_attention(component, name)
        if name in _OF_MLP and (kind == "mlp" or ".experts." in component):
            if name == "W_gate" and not cfg.gated_mlp:
                return None
            size = cfg.d_mlp if name == "b_in" else cfg.d_model
            return self._read(f"{component}.{_OF_MLP[name]}", (size,) if name.startswith("b_") else None)
        if name in _OF_NORM and ("ln" in kind or kind in ("q_norm", "k_norm")):
            return self._read(f"{component}.{_OF_NORM[name]}", None)
        if (component, name) == ("unembed", "b_U"):
            return self._read("unembed.bias", (cfg.d_vocab,))
        if {"embed": "W_E", "pos_embed": "W_pos", "unembed": "W_U"}.get(component) != name:
            return None
        value = self._read(f"{component}.weight", None)
        if value is None or name == "W_U":
            return value
        return value.T[-cfg.n_ctx :] if name == "W_pos" else value.T

    def _of_attention(self, component: str, name: str) -> Tensor | None:
        cfg = self._cfg
        if name in ("W_K", "W_V", "b_K", "b_V"):  # repeated for the query heads of a group
            own = self.find(component, f"_{name}")
            return None if own is None else own.repeat_interleave(cfg.n_heads // own.shape[0], dim=0)
        if name == "W_O":
            value = self._read(f"{component}.wo.weight", None)
            return None if value is None else value.reshape(cfg.n_heads, cfg.d_head, cfg.d_model)
        if name == "b_O":
            return self._read(f"{component}.wo.bias", (cfg.d_model,))
        if name not in _OF_HEADS:
            return None
        n = cfg.n_heads if name.endswith("Q") else cfg.n_key_value_heads or cfg.n_heads
        value = self._read(f"{component}.{_OF_HEADS[name]}", (n * cfg.d_head,) if "b_" in name else None)
        if value is None:
            return None
        if "b_" in name:
            return value.reshape(n, cfg.d_head)
        return value.T.reshape(n, cfg.d_head, cfg.d_model).transpose(1, 2)

    def _read(self, name: str, zeros: tuple[int, ...] | None) -> Tensor | None:
        """A parameter, matrices as `[in, out]`; zeros of this shape, or None, if the model lacks it."""
        try:
            value = torch.from_numpy(self._engine.parameter(name))
        except BadInput:
            return None if zeros is None else torch.zeros(zeros)
        return value.T if value.ndim == 2 else value


class WeightsMixin:
    """Weights of all layers, one after another."""

    cfg: HookedTransformerConfig
    weights: Weights

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Every weight under TransformerLens's name, such as ``blocks.3.attn.W_Q``."""
        if self.cfg.num_experts is not None:
            raise Unsupported("[named_parameters] expected a model without experts")
        kv = ("W_K", "W_V", "b_K", "b_V")
        of_attention = ["W_Q", "W_O", "b_Q", "b_O", *(kv if self.cfg.n_key_value_heads is None else (f"_{n}" for n in kv))]
        of_mlp = ["W_gate", "W_in", "b_in", "W_out", "b_out"]
        parts = [("embed", ["W_E"]), ("pos_embed", ["W_pos"])]
        for i in range(self.cfg.n_layers):
            block = f"blocks.{i}"
            norms = [(f"{block}.{norm}", ["w", "b"]) for norm in ("ln1", "ln1_post", "ln2", "ln2_post")]
            heads = [(f"{block}.attn.{norm}", ["w"]) for norm in ("q_norm", "k_norm")]
            parts += [*norms, (f"{block}.attn", of_attention), *heads, (f"{block}.mlp", of_mlp)]
        for component, names in [*parts, ("ln_final", ["w", "b"]), ("unembed", ["W_U", "b_U"])]:
            for name in names:
                value = self.weights.find(component, name)
                if value is not None:
                    yield f"{component}.{name}", value

    def parameters(self) -> Iterator[Tensor]:
        return (value for _, value in self.named_parameters())

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self.named_parameters())

    @property
    def n_params_total(self) -> int:
        return sum(value.numel() for value in self.parameters())

    def _weight(self, component: str, name: str) -> Tensor:
        value = self.weights.find(component, name)
        if value is None:
            raise AttributeError(f"the model has no {name} in {component}")
        return value

    def _stack(self, component: str, name: str) -> Tensor:
        return torch.stack([self._weight(f"blocks.{i}.{component}", name) for i in range(self.cfg.n_layers)])

    @property
    def W_E(self) -> Tensor:
        """`[d_vocab, d_model]`, with the scale of the embedding, if there is one."""
        return self._weight("embed", "W_E")

    @property
    def W_pos(self) -> Tensor:
        return self._weight("pos_embed", "W_pos")

    @property
    def W_E_pos(self) -> Tensor:
        return torch.cat([self.W_E, self.W_pos])

    @property
    def W_U(self) -> Tensor:
        """`[d_model, d_vocab]`"""
        return self._weight("unembed", "W_U")

    @property
    def b_U(self) -> Tensor:
        return self._weight("unembed", "b_U")

    @property
    def W_Q(self) -> Tensor:
        """`[n_layers, n_heads, d_model, d_head]`, as W_K and W_V; W_O is `[n_layers, n_heads, d_head, d_model]`."""
        return self._stack("attn", "W_Q")

    @property
    def W_K(self) -> Tensor:
        return self._stack("attn", "W_K")

    @property
    def W_V(self) -> Tensor:
        return self._stack("attn", "W_V")

    @property
    def W_O(self) -> Tensor:
        return self._stack("attn", "W_O")

    @property
    def b_Q(self) -> Tensor:
        return self._stack("attn", "b_Q")

    @property
    def b_K(self) -> Tensor:
        return self._stack("attn", "b_K")

    @property
    def b_V(self) -> Tensor:
        return self._stack("attn", "b_V")

    @property
    def b_O(self) -> Tensor:
        return self._stack("attn", "b_O")

    @property
    def W_in(self) -> Tensor:
        """`[n_layers, d_model, d_mlp]`, as W_gate; W_out is `[n_layers, d_mlp, d_model]`."""
        return self._stack("mlp", "W_in")

    @property
    def W_gate(self) -> Tensor | None:
        return self._stack("mlp", "W_gate") if self.cfg.gated_mlp else None

    @property
    def W_out(self) -> Tensor:
        return self._stack("mlp", "W_out")

    @property
    def b_in(self) -> Tensor:
        return self._stack("mlp", "b_in")

    @property
    def b_out(self) -> Tensor:
        return self._stack("mlp", "b_out")

    @property
    def QK(self) -> FactoredMatrix:
        return FactoredMatrix(self.W_Q, self.W_K.transpose(-2, -1))

    @property
    def OV(self) -> FactoredMatrix:
        return FactoredMatrix(self.W_V, self.W_O)

    def accumulated_bias(self, layer: int, mlp_input: bool = False, include_mlp_biases: bool = True) -> Tensor:
        """The sum of the biases that the sublayers before a layer add to the stream."""
        bias = torch.zeros(self.cfg.d_model)
        for i in range(layer + (1 if mlp_input else 0)):
            bias = bias + self._weight(f"blocks.{i}.attn", "b_O")
            if include_mlp_biases and i < layer:
                bias = bias + self._weight(f"blocks.{i}.mlp", "b_out")
        return bias

    def all_composition_scores(self, mode: str) -> Tensor:
        """`[n_layers, n_heads, n_layers, n_heads]`: how much of a head's output each later head's Q, K or V reads."""
        from .utils import composition_scores

        right = {"Q": lambda: self.QK, "K": lambda: self.QK.T, "V": lambda: self.OV}
        if mode not in right:
            raise ValueError(f"mode must be one of ['Q', 'K', 'V'] not {mode}")
        scores = composition_scores(self.OV, right[mode]())
        layers = torch.arange(self.cfg.n_layers)
        is_later = layers[:, None, None, None] < layers[None, None, :, None]
        return torch.where(is_later, scores, torch.zeros_like(scores))

    def all_head_labels(self) -> list[str]:
        return [f"L{layer}H{head}" for layer in range(self.cfg.n_layers) for head in range(self.cfg.n_heads)]
