"""Activation patching: runs of a corrupted prompt, each with some values of the clean one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from . import utils
from .activation_cache import ActivationCache
from .hooked_transformer import HookedTransformer

Metric = Callable[[Tensor], Tensor]
PatchSetter = Callable[[Tensor, Sequence[int], Tensor], Tensor]


def make_df_from_ranges(column_max_ranges: Sequence[int], column_names: Sequence[str]) -> Any:
    """A pandas table of all indices within the ranges."""
    import pandas as pd  # type: ignore[import-untyped,import-not-found,unused-ignore]

    return pd.DataFrame(list(itertools.product(*map(range, column_max_ranges))), columns=list(column_names))


def generic_activation_patch(
    model: HookedTransformer,
    corrupted_tokens: Tensor,
    clean_cache: ActivationCache,
    patching_metric: Metric,
    patch_setter: PatchSetter,
    activation_name: str,
    index_axis_names: Sequence[str] | None = None,
    index_df: Any = None,
    return_index_df: bool = False,
) -> Any:
    """The metric of a run for each index: ``patch_setter(value, index, clean value)`` puts clean values into the value of
    ``activation_name`` in layer ``index[0]``. The result has an axis for each of ``index_axis_names``: "layer", "pos",
    "dest_pos", "src_pos", "head", "head_index"; with a pandas table ``index_df``, one for its rows."""
    if index_df is None:
        assert index_axis_names is not None
        sizes = [_size(axis, model, corrupted_tokens, activation_name) for axis in index_axis_names]
        indices = list(itertools.product(*map(range, sizes)))
        if return_index_df:
            index_df = make_df_from_ranges(sizes, index_axis_names)
    else:
        assert index_axis_names is None
        indices = [tuple(row) for row in index_df.itertuples(index=False)]
        sizes = [len(indices)]
    metrics = []
    with torch.no_grad():
        for index in indices:
            name = utils.get_act_name(activation_name, layer=index[0])
            clean = clean_cache[name]

            def patch(value: Tensor, hook: Any, index: Sequence[int] = index, clean: Tensor = clean) -> Tensor:
                return patch_setter(value, list(index), clean)

            logits = model.run_with_hooks(corrupted_tokens, fwd_hooks=[(name, patch)])
            metrics.append(float(patching_metric(logits)))
    result = torch.tensor(metrics).reshape(sizes)
    return (result, index_df) if return_index_df else result


def _size(axis: str, model: HookedTransformer, tokens: Tensor, name: str) -> int:
    if axis == "layer":
        return model.cfg.n_layers
    if axis in ("pos", "src_pos", "dest_pos"):
        return tokens.shape[-1]
    if axis not in ("head", "head_index"):
        raise ValueError(f"expected the name of an axis, got {axis}")
    n_kv_heads = model.cfg.n_key_value_heads
    return n_kv_heads if name in ("k", "v") and n_kv_heads is not None else model.cfg.n_heads


def layer_pos_patch_setter(value: Tensor, index: Sequence[int], clean: Tensor) -> Tensor:
    _, pos = index
    value[:, pos, ...] = clean[:, pos, ...]
    return value


def layer_pos_head_vector_patch_setter(value: Tensor, index: Sequence[int], clean: Tensor) -> Tensor:
    _, pos, head = index
    value[:, pos, head] = clean[:, pos, head]
    return value


def layer_head_vector_patch_setter(value: Tensor, index: Sequence[int], clean: Tensor) -> Tensor:
    _, head = index
    value[:, :, head] = clean[:, :, head]
    return value


def layer_head_pattern_patch_setter(value: Tensor, index: Sequence[int], clean: Tensor) -> Tensor:
    _, head = index
    value[:, head] = clean[:, head]
    return value


def layer_head_pos_pattern_patch_setter(value: Tensor, index: Sequence[int], clean: Tensor) -> Tensor:
    _, head, dest = index
    value[:, head, dest] = clean[:, head, dest]
    return value


def layer_head_dest_src_pos_pattern_patch_setter(value: Tensor, index: Sequence[int], clean: Tensor) -> Tensor:
    _, head, dest, src = index
    value[:, head, dest, src] = clean[:, head, dest, src]
    return value


def _patch(activation_name: str, patch_setter: PatchSetter, *axes: str) -> Callable[..., Any]:
    return partial(
        generic_activation_patch, patch_setter=patch_setter, activation_name=activation_name, index_axis_names=axes
    )


get_act_patch_resid_pre = _patch("resid_pre", layer_pos_patch_setter, "layer", "pos")
get_act_patch_resid_mid = _patch("resid_mid", layer_pos_patch_setter, "layer", "pos")
get_act_patch_attn_out = _patch("attn_out", layer_pos_patch_setter, "layer", "pos")
get_act_patch_mlp_out = _patch("mlp_out", layer_pos_patch_setter, "layer", "pos")
get_act_patch_attn_head_out_by_pos = _patch("z", layer_pos_head_vector_patch_setter, "layer", "pos", "head")
get_act_patch_attn_head_q_by_pos = _patch("q", layer_pos_head_vector_patch_setter, "layer", "pos", "head")
get_act_patch_attn_head_k_by_pos = _patch("k", layer_pos_head_vector_patch_setter, "layer", "pos", "head")
get_act_patch_attn_head_v_by_pos = _patch("v", layer_pos_head_vector_patch_setter, "layer", "pos", "head")
get_act_patch_attn_head_pattern_by_pos = _patch(
    "pattern", layer_head_pos_pattern_patch_setter, "layer", "head_index", "dest_pos"
)
get_act_patch_attn_head_pattern_dest_src_pos = _patch(
    "pattern", layer_head_dest_src_pos_pattern_patch_setter, "layer", "head_index", "dest_pos", "src_pos"
)
get_act_patch_attn_head_out_all_pos = _patch("z", layer_head_vector_patch_setter, "layer", "head")
get_act_patch_attn_head_q_all_pos = _patch("q", layer_head_vector_patch_setter, "layer", "head")
get_act_patch_attn_head_k_all_pos = _patch("k", layer_head_vector_patch_setter, "layer", "head")
get_act_patch_attn_head_v_all_pos = _patch("v", layer_head_vector_patch_setter, "layer", "head")
get_act_patch_attn_head_pattern_all_pos = _patch("pattern", layer_head_pattern_patch_setter, "layer", "head_index")


def get_act_patch_attn_head_all_pos_every(
    model: HookedTransformer, corrupted_tokens: Tensor, clean_cache: ActivationCache, metric: Metric
) -> Tensor:
    """`[5, layer, head]`: outputs, queries, keys, values, patterns. Missing K/V heads are zeros."""
    runs = (
        get_act_patch_attn_head_out_all_pos, get_act_patch_attn_head_q_all_pos, get_act_patch_attn_head_k_all_pos,
        get_act_patch_attn_head_v_all_pos, get_act_patch_attn_head_pattern_all_pos,
    )
    results = [run(model, corrupted_tokens, clean_cache, metric) for run in runs]
    return torch.stack([pad(result, (0, model.cfg.n_heads - result.shape[-1])) for result in results])


def get_act_patch_attn_head_by_pos_every(
    model: HookedTransformer, corrupted_tokens: Tensor, clean_cache: ActivationCache, metric: Metric
) -> Tensor:
    """`[5, layer, pos, head]`: outputs, queries, keys, values, patterns by destination. Missing K/V heads are zeros."""
    runs = (
        get_act_patch_attn_head_out_by_pos, get_act_patch_attn_head_q_by_pos, get_act_patch_attn_head_k_by_pos,
        get_act_patch_attn_head_v_by_pos,
    )
    results = [run(model, corrupted_tokens, clean_cache, metric) for run in runs]
    pattern = get_act_patch_attn_head_pattern_by_pos(model, corrupted_tokens, clean_cache, metric)
    results.append(pattern.transpose(1, 2))
    return torch.stack([pad(result, (0, model.cfg.n_heads - result.shape[-1])) for result in results])


def get_act_patch_block_every(
    model: HookedTransformer, corrupted_tokens: Tensor, clean_cache: ActivationCache, metric: Metric
) -> Tensor:
    """`[3, layer, pos]`: the stream before each block, the outputs of attention, those of MLPs."""
    runs = (get_act_patch_resid_pre, get_act_patch_attn_out, get_act_patch_mlp_out)
    return torch.stack([run(model, corrupted_tokens, clean_cache, metric) for run in runs])
