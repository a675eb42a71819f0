"""Texts and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from .._errors import BadInput
from .._tokenizer import Tokenizer

if TYPE_CHECKING:
    from .config import HookedTransformerConfig

#: An argument that is not given: the config's default.
USE_DEFAULT_VALUE: Any = None


class TextMixin:
    """Conversions between texts, tokens and the texts of single tokens."""

    cfg: HookedTransformerConfig
    tokenizer: Tokenizer | None

    def _text_of_tokens(self) -> Tokenizer:
        if self.tokenizer is None:
            raise BadInput("[tokenizer] the model has no tokenizer: give tokens, or from_pretrained(…, tokenizer=PATH)")
        return self.tokenizer

    def set_tokenizer(self, tokenizer: Any, default_padding_side: str | None = None) -> None:
        """``tokenizer``: a vitrine.Tokenizer, or the path of one."""
        self.tokenizer = tokenizer if isinstance(tokenizer, Tokenizer) or tokenizer is None else Tokenizer(tokenizer)
        if default_padding_side is not None and self.tokenizer is not None:
            self.tokenizer.padding_side = default_padding_side
        self.cfg.tokenizer_prepends_bos = None
        if self.tokenizer is not None:
            ids = self.tokenizer.encode("a")
            self.cfg.tokenizer_prepends_bos = bool(ids) and ids[0] == self._bos_id()
        self._piece = lru_cache(maxsize=None)(self._text_of)

    @property
    def padding_side(self) -> str:
        return "right" if self.tokenizer is None else self.tokenizer.padding_side

    def padding_ids(self) -> Any:
        """``pad_token_id`` and ``bos_token_id``, as to_tokens() uses them."""
        return SimpleNamespace(pad_token_id=self._special_id("pad_token_id", "eos_token_id"), bos_token_id=self._bos_id())

    def _bos_id(self) -> int | None:
        return self._special_id("bos_token_id", "eos_token_id")

    def _special_id(self, *names: str) -> int | None:
        """The first of these ids that the tokenizer has, or config.json names."""
        config = self.model.config  # type: ignore[attr-defined]
        for name in names:
            own = getattr(self._text_of_tokens(), name)
            own = config.get(name) if own is None else own
            if isinstance(own, int):
                return own
        return None

    def to_tokens(
        self,
        input: str | Sequence[str],
        prepend_bos: bool | None = USE_DEFAULT_VALUE,
        padding_side: str | None = USE_DEFAULT_VALUE,
        move_to_device: bool = True,
        truncate: bool = True,
    ) -> Tensor:
        """`[batch, pos]`, with BOS first unless ``prepend_bos=False``; shorter texts are padded."""
        prepends = self.cfg.default_prepend_bos if prepend_bos is None else prepend_bos
        side = self.padding_side if padding_side is None else padding_side
        rows = [self._row(text, prepends) for text in ([input] if isinstance(input, str) else input)]
        if truncate:
            rows = [row[: self.cfg.n_ctx] for row in rows]
        length = max(map(len, rows), default=0)
        pad = self._special_id("pad_token_id", "eos_token_id")
        if pad is None and any(len(row) < length for row in rows):
            raise BadInput("[padding] the tokenizer has no token for padding")
        for row in rows:
            more = [pad or 0] * (length - len(row))
            row[:] = more + row if side == "left" else row + more
        return torch.tensor(rows, dtype=torch.long).reshape(len(rows), length)

    def _tokens(self, input: Any, prepend_bos: bool | None, padding_side: str | None) -> Tensor:
        if isinstance(input, (str, list, tuple)):
            return self.to_tokens(input, prepend_bos, padding_side)
        tokens = torch.as_tensor(input)
        return tokens[None] if tokens.ndim == 1 else tokens

    def _mask(
        self, tokens: Tensor, prepend_bos: bool | None, side: str, given: Tensor | None, has_past: bool
    ) -> Tensor | None:
        """Where tokens are seen; None: everywhere, as is usual for padding on the right."""
        if given is not None:
            mask = torch.as_tensor(given)
            if mask.shape != tokens.shape:
                raise BadInput(f"[attention_mask] expected shape {list(tokens.shape)}, got {list(mask.shape)}")
            return mask
        if side != "left" and not has_past:
            return None
        if self.tokenizer is None:
            return torch.ones_like(tokens) if has_past else None
        from .utils import get_attention_mask

        prepends = self.cfg.default_prepend_bos if prepend_bos is None else prepend_bos
        return get_attention_mask(self.padding_ids(), tokens, prepends, side)

    def _row(self, text: str, prepends: bool) -> list[int]:
        ids, bos = self._text_of_tokens().encode(text), self._bos_id()
        has_bos = bool(self.cfg.tokenizer_prepends_bos) and ids[:1] == [bos]
        if prepends and not has_bos and bos is not None:
            return [bos, *ids]
        return ids[1:] if has_bos and not prepends else ids

    def to_string(self, tokens: Any) -> str | list[str]:
        """The text of tokens `[pos]`, or the texts of `[batch, pos]`."""
        ids = np.asarray(tokens.detach().cpu() if isinstance(tokens, Tensor) else tokens)
        if ids.ndim > 2:
            raise ValueError(f"Invalid shape passed in: {ids.shape}")
        return [self._string(row.tolist()) for row in ids] if ids.ndim == 2 else self._string(ids.reshape(-1).tolist())

    def _string(self, ids: list[int]) -> str:
        """With the names of special tokens."""
        parts: list[str] = []
        start = 0
        for end in [*(i for i, id in enumerate(ids) if self._is_special(id)), len(ids)]:
            if end > start:
                parts.append(self._text_of_tokens().decode(ids[start:end]))
            if end < len(ids):
                parts.append(self._piece(ids[end]))
            start = end + 1
        return "".join(parts)

    def _is_special(self, id: int) -> bool:
        """A control token, which has no text of its own."""
        return self._text_of_tokens()._engine.bytes(id) == b""

    def _text_of(self, id: int) -> str:
        tokenizer = self._text_of_tokens()
        return tokenizer.convert_ids_to_tokens(id) if self._is_special(id) else tokenizer.decode([id])

    def to_str_tokens(
        self, input: Any, prepend_bos: bool | None = USE_DEFAULT_VALUE, padding_side: str | None = USE_DEFAULT_VALUE
    ) -> list[Any]:
        """The text of each token of a text or of tokens `[pos]` or `[1, pos]`; of a list, a list of each."""
        if isinstance(input, list):
            return [self.to_str_tokens(own, prepend_bos, padding_side) for own in input]
        tokens = self.to_tokens(input, prepend_bos, padding_side)[0] if isinstance(input, str) else input
        ids = np.atleast_1d(np.squeeze(np.asarray(tokens)))
        assert ids.ndim == 1, f"Invalid tokens input to to_str_tokens, has shape: {ids.shape}"
        return [self._piece(int(id)) for id in ids]

    def to_single_token(self, string: str) -> int:
        tokens = self.to_tokens(string, prepend_bos=False).reshape(-1)
        assert len(tokens) == 1, f"Input string: {string} is not a single token!"
        return int(tokens[0])

    def to_single_str_token(self, int_token: int) -> str:
        return self._piece(int(int_token))

    def get_token_position(
        self,
        single_token: Any,
        input: Any,
        mode: str = "first",
        prepend_bos: bool | None = USE_DEFAULT_VALUE,
        padding_side: str | None = USE_DEFAULT_VALUE,
    ) -> int:
        """The first or last position of a token, given as text or id, in a text or in tokens `[pos]` or `[1, pos]`."""
        tokens = self.to_tokens(input, prepend_bos, padding_side) if isinstance(input, str) else input
        if tokens.ndim == 2:
            assert tokens.shape[0] == 1, f"If tokens are rank two, they must have shape [1, seq_len], not {tokens.shape}"
            tokens = tokens[0]
        id = self.to_single_token(single_token) if isinstance(single_token, str) else int(single_token)
        places = (tokens == id).nonzero().reshape(-1)
        assert len(places) > 0, "The token does not occur in the prompt"
        if mode not in ("first", "last"):
            raise ValueError(f"mode must be 'first' or 'last', not {mode}")
        return int(places[0 if mode == "first" else -1])

    def tokens_to_residual_directions(self, tokens: Any) -> Tensor:
        """The columns of W_U for tokens: `[d_model]` for one, `[…, d_model]` for a tensor of several."""
        W_U: Tensor = self.W_U  # type: ignore[attr-defined]
        if isinstance(tokens, str):
            tokens = self.to_single_token(tokens)
        if isinstance(tokens, Tensor) and tokens.numel() > 1:
            return W_U.T[tokens]
        return W_U[:, int(tokens)]
