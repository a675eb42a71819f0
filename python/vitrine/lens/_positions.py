"""Which positions of the engine's rows a notebook sees, and where.

The engine reads every row from its first token on. A row that is padded on the left is given to it padded on the right,
and a pass after a past_kv_cache is one over all tokens: what notebooks see are shifted rows, without the past."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .._errors import BadInput, Unsupported


@dataclass(frozen=True)
class Positions:
    """A view of values `[B, T, …]`, and of patterns and scores `[B, H, T, S]`."""

    shifts: tuple[int, ...] = ()  #: The number of tokens of padding on the left of each row; (): none has any.
    past: int = 0  #: The number of positions that are not shown.

    @classmethod
    def of_mask(cls, mask: Tensor | None, past: int = 0) -> Positions:
        """``mask`` `[B, T]` is 1 where a token is seen. Throws Unsupported for zeros between ones."""
        if mask is None or bool(mask.all()):
            return cls((), past)
        seen = mask.bool()
        first, n = seen.int().argmax(-1), seen.sum(-1)
        places = torch.arange(seen.shape[1])
        expected = (places >= first[:, None]) & (places < (first + n)[:, None])
        if not torch.equal(seen, expected):
            raise Unsupported("[attention_mask] expected zeros only before and after the tokens of a row, got some between")
        shifts = tuple(first.tolist())
        return cls(shifts if any(shifts) else (), past)

    @property
    def is_identity(self) -> bool:
        return not self.shifts and self.past == 0

    def to_engine(self, rows: Tensor) -> Tensor:
        """Tokens `[B, T]` in the order of the engine."""
        return self._rolled(rows, False, -1)

    def of(self, name: str, value: Tensor) -> Tensor:
        """What a notebook sees of a value of the engine."""
        if self.is_identity:
            return value
        shown = self._rolled(value, is_joined(name, value.ndim), 1)
        return shown[self._new(name, value)]

    def back(self, name: str, shown: Tensor, value: Tensor) -> Tensor:
        """The value of the engine, in which what the notebook sees is replaced."""
        if self.is_identity:
            return shown
        has_pairs = is_joined(name, value.ndim)
        whole = self._rolled(value, has_pairs, 1).clone()
        whole[self._new(name, value)] = shown
        return self._rolled(whole, has_pairs, -1)

    def _new(self, name: str, value: Tensor) -> tuple[slice, ...]:
        all, new = slice(None), slice(self.past, None)
        if name.endswith("hook_rot_k"):  # the rotated keys of all tokens
            return (all,)
        return (all, all, new) if is_joined(name, value.ndim) else (all, new)

    def _rolled(self, value: Tensor, has_pairs: bool, sign: int) -> Tensor:
        if not self.shifts:
            return value
        rows = []
        for row, shift in zip(value, self.shifts, strict=True):
            by, dims = ((sign * shift, sign * shift), (1, 2)) if has_pairs else ((sign * shift,), (0,))
            rows.append(row.roll(by, dims))
        return torch.stack(rows)


def is_joined(name: str, n_dims: int) -> bool:
    """Whether a value is that of all heads and pairs of positions of each row."""
    return n_dims == 4 and name.endswith(("scores_raw", "attn_scores", "hook_pattern"))


@dataclass
class TransformerLensKeyValueCache:
    """The tokens before those of the next call. A pass computes their values again, so hooks of earlier calls have no
    effect on it."""

    tokens: Tensor  #: `[batch, pos_so_far]`
    previous_attention_mask: Tensor
    frozen: bool = field(default=False)

    @classmethod
    def init_cache(cls, cfg: Any, device: Any = None, batch_size: int = 1) -> TransformerLensKeyValueCache:
        nothing = torch.empty((batch_size, 0), dtype=torch.long)
        return cls(nothing, nothing.clone())

    def freeze(self) -> None:
        """Further calls read the cache and do not add to it."""
        self.frozen = True

    def unfreeze(self) -> None:
        self.frozen = False

    def extend(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """All tokens and their mask, with those of a call, which the cache keeps unless it is frozen."""
        if len(tokens) != len(self.tokens):
            raise BadInput(f"[past_kv_cache] expected a batch of {len(self.tokens)}, got {len(tokens)}")
        tokens = torch.cat([self.tokens, tokens], dim=1)
        mask = torch.cat([self.previous_attention_mask, mask.long()], dim=1)
        if not self.frozen:
            self.tokens, self.previous_attention_mask = tokens, mask
        return tokens, mask

    def __getitem__(self, layer: int) -> Any:
        raise Unsupported("[past_kv_cache] it has tokens, but no keys and values: run_with_cache() returns those")
