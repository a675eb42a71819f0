"""Which heads attend as a pattern says."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Union

import torch
from torch import Tensor

from .utils import is_lower_triangular, is_square

if TYPE_CHECKING:
    from .activation_cache import ActivationCache
    from .hooked_transformer import HookedTransformer

HeadName = str
"""``"previous_token_head"``, ``"duplicate_token_head"`` or ``"induction_head"``."""
ErrorMeasure = str
"""``"abs"`` or ``"mul"``."""
Heads = Union[Sequence[tuple[int, int]], Mapping[int, Sequence[int]], None]


def detect_head(
    model: HookedTransformer,
    seq: str | list[str],
    detection_pattern: Tensor | HeadName,
    heads: Heads = None,
    cache: ActivationCache | None = None,
    *,
    exclude_bos: bool = False,
    exclude_current_token: bool = False,
    error_measure: ErrorMeasure = "mul",
) -> Tensor:
    """`[n_layers, n_heads]`: how well the pattern of each head fits ``detection_pattern`` `[pos, pos]`, or one of the
    named ones; −1 for heads that are not among ``heads``. Of several texts, the mean. "mul" is the part of the attention
    that falls on the pattern, "abs" is 1 minus the mean absolute difference of a row."""
    assert error_measure in ("abs", "mul"), f"Invalid error_measure={error_measure}; valid values are ('abs', 'mul')"
    tokens = model.to_tokens(seq)
    if isinstance(detection_pattern, str):
        assert detection_pattern in _PATTERNS, (
            f"detection_pattern must be a Tensor or one of head names: {list(_PATTERNS)}; got {detection_pattern}"
        )
        if isinstance(seq, list):
            if cache is not None:
                raise ValueError("`cache` is not supported when `seq` is a list: it is that of one text")
            scores = [
                detect_head(
                    model, text, detection_pattern, heads, exclude_bos=exclude_bos,
                    exclude_current_token=exclude_current_token, error_measure=error_measure,
                )
                for text in seq
            ]
            return torch.stack(scores).mean(0)
        detection_pattern = _PATTERNS[detection_pattern](tokens)
    if error_measure == "mul" and not set(detection_pattern.flatten().tolist()) <= {0, 1}:
        logging.warning("Using detection pattern with values other than 0 or 1 with error_measure 'mul'")
    length = tokens.shape[-1]
    assert 1 < length < model.cfg.n_ctx, "The sequence must be non-empty and must fit within the model's context window."
    assert is_lower_triangular(detection_pattern) and len(detection_pattern) == length, (
        f"The detection pattern must be a lower triangular matrix of shape ({length}, {length}); "
        f"got detection pattern of shape {tuple(detection_pattern.shape)}"
    )
    if cache is None:
        with torch.no_grad():
            cache = model.run_with_cache(tokens, remove_batch_dim=True)[1]
    scores_of = -torch.ones(model.cfg.n_layers, model.cfg.n_heads)
    for layer, head in _pairs(heads, model):
        scores_of[layer, head] = compute_head_attention_similarity_score(
            cache["pattern", layer, "attn"][head], detection_pattern, exclude_bos=exclude_bos,
            exclude_current_token=exclude_current_token, error_measure=error_measure,
        )
    return scores_of


def _pairs(heads: Heads, model: HookedTransformer) -> list[tuple[int, int]]:
    if heads is None:
        return [(layer, head) for layer in range(model.cfg.n_layers) for head in range(model.cfg.n_heads)]
    if isinstance(heads, Mapping):
        return [(layer, head) for layer, own in heads.items() for head in own]
    return list(heads)


def get_previous_token_head_detection_pattern(tokens: Tensor) -> Tensor:
    """Of tokens `[1, pos]`: every position attends to the one before."""
    n = tokens.shape[-1]
    return torch.diag(torch.ones(n - 1), -1)


def get_duplicate_token_head_detection_pattern(tokens: Tensor) -> Tensor:
    """Every position attends to earlier ones with the same token."""
    row = tokens.reshape(-1)
    return (row[:, None] == row[None, :]).float().tril(-1)


def get_induction_head_detection_pattern(tokens: Tensor) -> Tensor:
    """Every position attends to those after earlier ones with the same token."""
    shifted = get_duplicate_token_head_detection_pattern(tokens).roll(1, 1)
    shifted[:, 0] = 0
    return shifted.tril()


_PATTERNS = {
    "previous_token_head": get_previous_token_head_detection_pattern,
    "duplicate_token_head": get_duplicate_token_head_detection_pattern,
    "induction_head": get_induction_head_detection_pattern,
}
HEAD_NAMES = list(_PATTERNS)


def get_supported_heads() -> None:
    print(f"Supported heads: {HEAD_NAMES}")


def compute_head_attention_similarity_score(
    attention_pattern: Tensor,
    detection_pattern: Tensor,
    *,
    exclude_bos: bool,
    exclude_current_token: bool,
    error_measure: ErrorMeasure,
) -> float:
    """Of a pattern `[pos, pos]`."""
    assert is_square(attention_pattern), f"Attention pattern is not square; got shape {attention_pattern.shape}"

    def masked(values: Tensor) -> Tensor:
        values = values.clone()
        if exclude_bos:
            values[:, 0] = 0
        if exclude_current_token:
            values.fill_diagonal_(0)
        return values

    if error_measure == "mul":
        attention = masked(attention_pattern)
        return float((attention * detection_pattern).sum() / attention.sum())
    difference = masked((attention_pattern - detection_pattern).abs())
    return 1 - round(float(difference.mean() * len(difference)), 3)
