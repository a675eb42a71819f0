"""Tokenizers."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from . import _engine
from ._errors import BadInput


class Encoding(dict[str, Any]):
    """``input_ids`` and ``attention_mask``, as keys and as attributes."""

    def to(self, device: Any) -> Encoding:
        """The same with PyTorch's tensors on a device."""
        return Encoding({name: tensor.to(device) for name, tensor in self.items()})

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Tokenizer:
    """A tokenizer: of a model (``model.tokenizer``), or of a file or folder."""

    def __init__(self, path: str | Path, *, pattern: str = "") -> None:
        self._set(_engine.open_tokenizer(str(path), pattern), _json_of(Path(path) / "config.json"))
        self._reopen: tuple[Any, ...] | None = (Tokenizer._open, (str(path), pattern))

    @staticmethod
    def _open(path: str, pattern: str) -> Tokenizer:
        return Tokenizer(path, pattern=pattern)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold the path, from which they are opened again."""
        if self._reopen is None:
            raise TypeError("cannot pickle the tokenizer of a model that has no path: open one with vitrine.Tokenizer")
        return (*self._reopen, {"padding_side": self.padding_side})

    def _set(self, engine: _engine.Tokenizer, config: dict[str, Any]) -> None:
        self._engine = engine
        self._config = config
        self.padding_side = "right"  #: "left" or "right": where __call__ pads unless it is given a side.

    @classmethod
    def _of_model(cls, model: _engine.Model, reopen: tuple[Any, ...] | None = None) -> Tokenizer:
        self = cls.__new__(cls)
        self._reopen = reopen
        self._set(_engine.tokenizer_of_model(model), json.loads(model.config_json or "{}"))
        return self

    @property
    def vocab_size(self) -> int:
        return self._engine.vocab_size

    def __len__(self) -> int:
        return self.vocab_size

    @property
    def bos_token_id(self) -> int | None:
        return self._engine.bos

    @property
    def eos_token_ids(self) -> list[int]:
        """Every id that ends a text: those that config.json names, then those of the tokenizer."""
        named = self._config.get("eos_token_id")
        ids = named if isinstance(named, list) else [] if named is None else [named]
        return list(dict.fromkeys([*ids, *self._engine.stop_ids]))

    @property
    def eos_token_id(self) -> int | None:
        """The first of them."""
        return self.eos_token_ids[0] if self.eos_token_ids else None

    @property
    def pad_token_id(self) -> int | None:
        """That of config.json; else the end of a text."""
        named = self._config.get("pad_token_id")
        return named if isinstance(named, int) and named >= 0 else self.eos_token_id

    @property
    def bos_token(self) -> str | None:
        return self._piece_of(self.bos_token_id)

    @property
    def eos_token(self) -> str | None:
        return self._piece_of(self.eos_token_id)

    @property
    def pad_token(self) -> str | None:
        return self._piece_of(self.pad_token_id)

    def _piece_of(self, id: int | None) -> str | None:
        return None if id is None else self._engine.piece(id)

    def encode(self, text: str, add_special_tokens: bool = True, *, split_special_tokens: bool = False) -> list[int]:
        """The ids of a text. Special tokens that the text spells are recognized, unless they are to be split."""
        if add_special_tokens and split_special_tokens:
            before, after = self._added_ids
            return [*before, *self._engine.encode(text, "none"), *after]
        policy = "apply" if add_special_tokens else "none" if split_special_tokens else "written"
        return self._engine.encode(text, policy)

    @cached_property
    def _added_ids(self) -> tuple[list[int], list[int]]:
        """The special tokens that the tokenizer adds before and after a text."""
        own, all_ids = self._engine.encode("a", "none"), self._engine.encode("a", "apply")
        for first in range(len(all_ids) - len(own) + 1):
            if all_ids[first : first + len(own)] == own:
                return all_ids[:first], all_ids[first + len(own) :]
        raise BadInput("[split_special_tokens] the tokenizer changes a text to which it adds special tokens")

    def decode(self, ids: int | Iterable[int] | npt.ArrayLike, skip_special_tokens: bool = False) -> str:
        """The text of ids. Control tokens have no text; ``skip_special_tokens`` also drops BOS and EOS."""
        flat = [int(i) for i in np.ravel(np.asarray(ids))]
        if skip_special_tokens:
            special = {self.bos_token_id, *self.eos_token_ids}
            flat = [i for i in flat if i not in special]
        return self._engine.decode(flat)

    def batch_decode(self, batch: Iterable[Any], skip_special_tokens: bool = False) -> list[str]:
        return [self.decode(ids, skip_special_tokens) for ids in batch]

    @overload
    def convert_ids_to_tokens(self, ids: int) -> str: ...
    @overload
    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]: ...
    def convert_ids_to_tokens(self, ids: int | Iterable[int]) -> str | list[str]:
        """The pieces as the vocabulary spells them."""
        if isinstance(ids, (int, np.integer)):
            return self._engine.piece(int(ids))
        return [self._engine.piece(int(i)) for i in ids]

    @cached_property
    def vocab(self) -> dict[str, int]:
        """The id of each piece; of pieces that are spelled alike, the first."""
        return {self._engine.piece(id): id for id in reversed(range(self.vocab_size))}

    @overload
    def convert_tokens_to_ids(self, tokens: str) -> int: ...  # type: ignore[overload-overlap]
    @overload
    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]: ...
    def convert_tokens_to_ids(self, tokens: str | Iterable[str]) -> int | list[int]:
        """The ids of pieces as the vocabulary spells them. Raises KeyError for others."""
        return self.vocab[tokens] if isinstance(tokens, str) else [self.vocab[token] for token in tokens]

    def __call__(
        self,
        text: str | Sequence[str],
        *,
        add_special_tokens: bool = True,
        split_special_tokens: bool = False,
        padding: bool | str = False,
        truncation: bool = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
        padding_side: str | None = None,
    ) -> Encoding:
        """``input_ids`` and ``attention_mask`` of a text or of a list of texts. ``padding``: True (to the longest) or
        "max_length"; ``return_tensors``: None (lists), "np" or "pt"."""
        if return_tensors not in (None, "np", "pt"):
            raise BadInput(f'[return_tensors] expected None, "np" or "pt", got {return_tensors!r}')
        if padding not in (False, True, "longest", "max_length"):
            raise BadInput(f'[padding] expected False, True, "longest" or "max_length", got {padding!r}')
        side = padding_side or self.padding_side
        if side not in ("left", "right"):
            raise BadInput(f'[padding_side] expected "left" or "right", got {side!r}')
        if (truncation or padding == "max_length") and max_length is None:
            raise BadInput("[max_length] truncation and padding to max_length need it")
        is_one = isinstance(text, str)
        texts = [text] if isinstance(text, str) else list(text)
        rows = [self.encode(one, add_special_tokens, split_special_tokens=split_special_tokens) for one in texts]
        if truncation and max_length is not None:
            rows = [row if len(row) <= max_length else self._cut(one, row, max_length, split_special_tokens) for one, row in zip(texts, rows)]
        masks = [[1] * len(row) for row in rows]
        if padding:
            length = max_length if padding == "max_length" else max(map(len, rows), default=0)
            assert length is not None
            pad = self.pad_token_id
            if pad is None and any(len(row) < length for row in rows):
                raise BadInput("[padding] the tokenizer has no token for padding")
            rows = [_padded(row, length, pad or 0, side) for row in rows]
            masks = [_padded(mask, length, 0, side) for mask in masks]
        if return_tensors is None:
            return Encoding(input_ids=rows[0] if is_one else rows, attention_mask=masks[0] if is_one else masks)
        if len({len(row) for row in rows}) > 1:
            raise BadInput("[return_tensors] the texts differ in length: give padding=True")
        arrays = [np.array(table, dtype=np.int64) for table in (rows, masks)]
        if return_tensors == "pt":
            torch = importlib.import_module("torch")
            return Encoding(input_ids=torch.from_numpy(arrays[0]), attention_mask=torch.from_numpy(arrays[1]))
        return Encoding(input_ids=arrays[0], attention_mask=arrays[1])


    def _cut(self, text: str, ids: list[int], length: int, splits: bool) -> list[int]:
        """The first ids of a text, with the special tokens at its ends."""
        own = self.encode(text, add_special_tokens=False, split_special_tokens=splits)
        n_added = len(ids) - len(own)
        starts = [i for i in range(n_added + 1) if ids[i : i + len(own)] == own]
        if not starts or n_added >= length:
            return ids[:length]
        first = starts[0]
        return ids[:first] + own[: length - n_added] + ids[first + len(own) :]


def _padded(row: list[int], length: int, pad: int, side: str) -> list[int]:
    more = [pad] * (length - len(row))
    return more + row if side == "left" else row + more


def _json_of(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}

