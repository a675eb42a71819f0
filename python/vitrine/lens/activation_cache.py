"""The values of a pass, and sums and parts of its residual stream."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from . import utils
from ._slice import Slice

if TYPE_CHECKING:
    from .hooked_transformer import HookedTransformer


class ActivationCache:
    """Values by name. ``cache["q", 3]``, ``cache["scale", 4, "ln1"]`` and ``cache["k6"]`` are short forms."""

    def __init__(self, cache_dict: dict[str, Tensor], model: HookedTransformer, has_batch_dim: bool = True) -> None:
        self.cache_dict, self.model, self.has_batch_dim = cache_dict, model, has_batch_dim
        self.has_embed = "hook_embed" in cache_dict
        self.has_pos_embed = "hook_pos_embed" in cache_dict

    def __getitem__(self, key: Any) -> Tensor:
        if key in self.cache_dict:
            return self.cache_dict[key]
        if isinstance(key, str):
            return self.cache_dict[utils.get_act_name(key)]
        name, layer, *rest = (*key, None) if len(key) == 1 else key
        if layer is not None and layer < 0:
            layer += self.model.cfg.n_layers
        return self.cache_dict[utils.get_act_name(name, layer, *rest)]

    def __len__(self) -> int:
        return len(self.cache_dict)

    def __iter__(self) -> Iterator[str]:
        return iter(self.cache_dict)

    def __contains__(self, key: object) -> bool:
        return key in self.cache_dict

    def __repr__(self) -> str:
        return f"ActivationCache with keys {list(self.cache_dict)}"

    def keys(self) -> KeysView[str]:
        return self.cache_dict.keys()

    def values(self) -> ValuesView[Tensor]:
        return self.cache_dict.values()

    def items(self) -> ItemsView[str, Tensor]:
        return self.cache_dict.items()

    def to(self, device: Any) -> ActivationCache:
        self.cache_dict = {name: value.to(device) for name, value in self.cache_dict.items()}
        return self

    def toggle_autodiff(self, mode: bool = False) -> None:
        logging.warning("Changed the global state, set autodiff to %s", mode)
        torch.set_grad_enabled(mode)

    def _batch_size(self) -> int:
        counts = Counter(value.size(0) for value in self.cache_dict.values() if value.ndim > 0)
        return counts.most_common(1)[0][0] if counts else 1

    def remove_batch_dim(self) -> ActivationCache:
        if not self.has_batch_dim:
            logging.warning("Tried removing batch dimension after already having removed it.")
            return self
        assert self._batch_size() == 1, f"Cannot remove batch dimension from cache with batch size {self._batch_size()}"
        for name, value in self.cache_dict.items():
            if value.ndim > 0 and value.size(0) == 1:
                self.cache_dict[name] = value[0]
        self.has_batch_dim = False
        return self

    def apply_slice_to_batch_dim(self, batch_slice: Any) -> ActivationCache:
        part = Slice.of(batch_slice)
        assert self.has_batch_dim or part.mode == "identity", "Cannot index into a cache without a batch dim"
        size = self._batch_size()
        values = {
            name: part.apply(value) if value.ndim > 0 and value.size(0) == size else value
            for name, value in self.cache_dict.items()
        }
        return ActivationCache(values, self.model, self.has_batch_dim and part.mode != "int")

    def _layer(self, layer: int | None) -> int:
        return self.model.cfg.n_layers if layer is None or layer == -1 else layer

    # The stream, and its summands

    def accumulated_resid(
        self,
        layer: int | None = None,
        incl_mid: bool = False,
        apply_ln: bool = False,
        pos_slice: Any = None,
        mlp_input: bool = False,
        return_labels: bool = False,
    ) -> Any:
        """`[n, …, d_model]`: the stream before each layer up to ``layer``, with ``incl_mid`` also after attention. With
        ``apply_ln``, as the layer's norm divides it; before the head, each with a divisor of its own."""
        end, positions = self._layer(layer), Slice.of(pos_slice)
        labels, parts = [], []
        for i in range(end + 1):
            if i == self.model.cfg.n_layers:
                labels.append("final_post")
                parts.append(self["resid_post", i - 1])
                continue
            labels.append(f"{i}_pre")
            parts.append(self["resid_pre", i])
            if (incl_mid and i < end) or (mlp_input and i == end):
                labels.append(f"{i}_mid")
                parts.append(self["resid_mid", i])
        stack = torch.stack([positions.apply(part, -2) for part in parts])
        if apply_ln:
            is_end = end == self.model.cfg.n_layers
            stack = self.apply_ln_to_stack(stack, end, mlp_input, positions, None, self.has_batch_dim, is_end)
        return (stack, labels) if return_labels else stack

    def decompose_resid(
        self,
        layer: int | None = None,
        mlp_input: bool = False,
        mode: str = "all",
        apply_ln: bool = False,
        pos_slice: Any = None,
        incl_embeds: bool = True,
        return_labels: bool = False,
    ) -> Any:
        """`[n, …, d_model]`: the embeddings and the sublayers' outputs whose sum the layer reads. ``mode``: "all", "attn"
        or "mlp"."""
        end, positions = self._layer(layer), Slice.of(pos_slice)
        has_attn, has_mlp = mode != "mlp", mode != "attn"
        names = ["embed"] * (incl_embeds and self.has_embed) + ["pos_embed"] * (incl_embeds and self.has_pos_embed)
        parts = [(name, self[name]) for name in names]
        for i in range(end):
            parts += [(f"{i}_attn_out", self["attn_out", i])] * has_attn + [(f"{i}_mlp_out", self["mlp_out", i])] * has_mlp
        if mlp_input and has_attn:
            parts.append((f"{end}_attn_out", self["attn_out", end]))
        stack = torch.stack([positions.apply(part, -2) for _, part in parts])
        if apply_ln:
            stack = self.apply_ln_to_stack(stack, end, mlp_input, positions)
        return (stack, [label for label, _ in parts]) if return_labels else stack

    def compute_head_results(self) -> None:
        """Adds hook_result of every layer: what each head adds to the stream."""
        if "blocks.0.attn.hook_result" in self.cache_dict:
            logging.warning("Tried to compute head results when they were already cached")
            return
        for i in range(self.model.cfg.n_layers):
            z, W_O = self["z", i], self.model.blocks[i].attn.W_O
            self.cache_dict[f"blocks.{i}.attn.hook_result"] = torch.einsum("...hi,hij->...hj", z, W_O)

    def stack_head_results(
        self,
        layer: int = -1,
        return_labels: bool = False,
        incl_remainder: bool = False,
        pos_slice: Any = None,
        apply_ln: bool = False,
    ) -> Any:
        """`[n, …, d_model]`: what each head before the layer adds to the stream; then what is left of it."""
        end, positions = self._layer(layer), Slice.of(pos_slice)
        if "blocks.0.attn.hook_result" not in self.cache_dict:
            self.compute_head_results()
        parts = [positions.apply(self["result", i], -3).movedim(-2, 0) for i in range(end)]
        labels = [f"L{i}H{head}" for i in range(end) for head in range(self.model.cfg.n_heads)]
        return self._stacked(parts, labels, end, positions, incl_remainder, apply_ln, return_labels, None)

    def get_neuron_results(
        self, layer: int, neuron_slice: Any = None, pos_slice: Any = None, project_output_onto: Tensor | None = None
    ) -> Tensor:
        """`[…, n, d_model]`: what each neuron of a layer adds to the stream, or its products with given vectors."""
        neurons = Slice.of(neuron_slice)
        acts = neurons.apply(Slice.of(pos_slice).apply(self["post", layer], -2), -1)
        W_out = neurons.apply(self.model.blocks[layer].mlp.W_out, 0)
        if project_output_onto is None:
            return acts[..., None] * W_out
        projected = W_out @ project_output_onto
        return acts * projected if projected.ndim == 1 else acts[..., None] * projected

    def stack_neuron_results(
        self,
        layer: int,
        pos_slice: Any = None,
        neuron_slice: Any = None,
        return_labels: bool = False,
        incl_remainder: bool = False,
        apply_ln: bool = False,
        project_output_onto: Tensor | None = None,
    ) -> Any:
        """`[n, …, d_model]`: what each neuron before the layer adds to the stream; then what is left of it."""
        end, positions, neurons = self._layer(layer), Slice.of(pos_slice), Slice.unwrap(neuron_slice)
        parts = [self.get_neuron_results(i, neurons, positions).movedim(-2, 0) for i in range(end)]
        names = neurons.apply(torch.arange(self.model.cfg.d_mlp)).tolist()
        labels = [f"L{i}N{neuron}" for i in range(end) for neuron in names]
        return self._stacked(
            parts, labels, end, positions, incl_remainder, apply_ln, return_labels, project_output_onto
        )

    def _stacked(
        self, parts: list[Tensor], labels: list[str], end: int, positions: Slice, incl_remainder: bool, apply_ln: bool,
        return_labels: bool, onto: Tensor | None,
    ) -> Any:
        stack = torch.cat(parts) if parts else positions.apply(self["resid_pre", 0], -2)[None][:0]
        if incl_remainder:
            stream = positions.apply(self["resid_post", end - 1], -2)
            stack = torch.cat([stack, (stream - stack.sum(0))[None]])
            labels = [*labels, "remainder"]
        if apply_ln:
            stack = self.apply_ln_to_stack(stack, end, pos_slice=positions)
        if onto is not None:
            stack = stack @ onto
        return (stack, labels) if return_labels else stack

    def stack_activation(self, activation_name: str, layer: int = -1, sublayer_type: str | None = None) -> Tensor:
        """`[layers, …]`: a value of all layers before ``layer``."""
        return torch.stack([self[activation_name, i, sublayer_type] for i in range(self._layer(layer))])

    def get_full_resid_decomposition(
        self,
        layer: int | None = None,
        mlp_input: bool = False,
        expand_neurons: bool = True,
        apply_ln: bool = False,
        pos_slice: Any = None,
        return_labels: bool = False,
        project_output_onto: Tensor | None = None,
    ) -> Any:
        """`[n, …, d_model]`: heads, neurons (or MLPs), embeddings and the biases, whose sum the layer reads."""
        end, positions = self._layer(layer), Slice.of(pos_slice)
        stack, labels = self.stack_head_results(end + (1 if mlp_input else 0), True, pos_slice=positions)
        parts = [stack]
        if end > 0:
            if expand_neurons:
                own, names = self.stack_neuron_results(end, positions, return_labels=True)
            else:
                own, names = self.decompose_resid(
                    end, mlp_input, "mlp", pos_slice=positions, incl_embeds=False, return_labels=True
                )
            parts.append(own)
            labels = labels + names
        for name in ["embed"] * self.has_embed + ["pos_embed"] * self.has_pos_embed:
            parts.append(positions.apply(self[name], -2)[None])
            labels.append(name)
        bias = self.model.accumulated_bias(end, mlp_input, include_mlp_biases=expand_neurons)
        parts.append(bias.expand((1, *stack.shape[1:])))
        labels.append("bias")
        whole = torch.cat(parts)
        if apply_ln:
            whole = self.apply_ln_to_stack(whole, end, mlp_input, positions)
        if project_output_onto is not None:
            whole = whole @ project_output_onto
        return (whole, labels) if return_labels else whole

    # Norms and logits

    def apply_ln_to_stack(
        self,
        residual_stack: Tensor,
        layer: int | None = None,
        mlp_input: bool = False,
        pos_slice: Any = None,
        batch_slice: Any = None,
        has_batch_dim: bool = True,
        recompute_ln: bool = False,
    ) -> Tensor:
        """Divides summands of the stream by what the layer's norm has divided the stream by; LayerNorm also subtracts
        their means. With ``recompute_ln`` before the head, each is normed as if it were the stream."""
        if self.model.cfg.normalization_type is None:
            return residual_stack
        end, batch = self._layer(layer), Slice.of(batch_slice)
        is_end = end == self.model.cfg.n_layers
        stack = batch.apply(residual_stack, 1) if has_batch_dim else residual_stack
        if recompute_ln and is_end:
            normed: Tensor = self.model.ln_final(stack)
            return normed
        if self.model.cfg.normalization_type == "LN":
            stack = stack - stack.mean(-1, keepdim=True)
        name = "ln_final.hook_scale" if is_end else f"blocks.{end}.ln{2 if mlp_input else 1}.hook_scale"
        scale = Slice.of(pos_slice).apply(self[name], -2)
        return stack / (batch.apply(scale) if self.has_batch_dim else scale)

    def logit_attrs(
        self,
        residual_stack: Tensor,
        tokens: Any,
        incorrect_tokens: Any = None,
        pos_slice: Any = None,
        batch_slice: Any = None,
        has_batch_dim: bool = True,
    ) -> Tensor:
        """`[n, …]`: what each summand of the stream adds to the logit of a token, or to its difference from another."""
        directions = self.model.tokens_to_residual_directions(tokens)
        if incorrect_tokens is not None:
            other = self.model.tokens_to_residual_directions(incorrect_tokens)
            if other.shape != directions.shape:
                raise ValueError("tokens and incorrect_tokens must have the same shape!")
            directions = directions - other
        stack = self.apply_ln_to_stack(
            residual_stack, -1, pos_slice=pos_slice, batch_slice=batch_slice, has_batch_dim=has_batch_dim
        )
        return (stack * directions).sum(-1)
