"""Tokenizers."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _engine
from ._errors import BadInput


class Encoding(dict[str, Any]):
    """``input_ids`` and ``attention_mask``, as keys and as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Tokenizer:
    """A tokenizer: of a model (``model.tokenizer``), or of a file or folder."""

    def __init__(self, path: str | Path, *, pattern: str = "") -> None:
        self._engine = _engine.Tokenizer.of_file(str(path), pattern)
        self._pad_id = _pad_id_of(_json_of(Path(path) / "config.json"))

    @classmethod
    def _of_model(cls, model: _engine.Model) -> Tokenizer:
        self = cls.__new__(cls)
        self._engine = _engine.Tokenizer.of_model(model)
        self._pad_id = _pad_id_of(json.loads(model.config_json or "{}"))
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
        """Every id that ends a text."""
        return self._engine.stop_ids

    @property
    def eos_token_id(self) -> int | None:
        return self.eos_token_ids[0] if self.eos_token_ids else None

    @property
    def pad_token_id(self) -> int | None:
        """The checkpoint's padding; without one, the end of a text."""
        return self._pad_id if self._pad_id is not None else self.eos_token_id

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text. With ``add_special_tokens=False``, none are added, and none that the text spells are
        recognized."""
        return self._engine.encode(text, add_special_tokens)

    def decode(self, ids: int | Iterable[int] | npt.ArrayLike, skip_special_tokens: bool = False) -> str:
        """The text of ids. Control tokens have no text; ``skip_special_tokens`` also drops BOS and EOS."""
        flat = [int(i) for i in np.ravel(np.asarray(ids))]
        if skip_special_tokens:
            special = {self.bos_token_id, *self.eos_token_ids}
            flat = [i for i in flat if i not in special]
        return self._engine.decode(flat)

    def batch_decode(self, batch: Iterable[Any], skip_special_tokens: bool = False) -> list[str]:
        return [self.decode(ids, skip_special_tokens) for ids in batch]

    def convert_ids_to_tokens(self, ids: int | Iterable[int]) -> str | list[str]:
        """The pieces as the vocabulary spells them."""
        if isinstance(ids, (int, np.integer)):
            return self._engine.piece(int(ids))
        return [self._engine.piece(int(i)) for i in ids]

    def __call__(
        self,
        text: str | Sequence[str],
        *,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
        padding_side: str = "right",
    ) -> Encoding:
        """``input_ids`` and ``attention_mask`` of a text or of a list of texts. ``padding``: True (to the longest) or
        "max_length"; ``return_tensors``: None (lists), "np" or "pt"."""
        if return_tensors not in (None, "np", "pt"):
            raise BadInput(f'[return_tensors] expected None, "np" or "pt", got {return_tensors!r}')
        if padding not in (False, True, "longest", "max_length"):
            raise BadInput(f'[padding] expected False, True, "longest" or "max_length", got {padding!r}')
        if padding_side not in ("left", "right"):
            raise BadInput(f'[padding_side] expected "left" or "right", got {padding_side!r}')
        if (truncation or padding == "max_length") and max_length is None:
            raise BadInput("[max_length] truncation and padding to max_length need it")
        is_one = isinstance(text, str)
        texts = [text] if isinstance(text, str) else list(text)
        rows = [self.encode(one, add_special_tokens) for one in texts]
        if truncation:
            rows = [row[:max_length] for row in rows]
        masks = [[1] * len(row) for row in rows]
        if padding:
            length = max_length if padding == "max_length" else max(map(len, rows), default=0)
            assert length is not None
            pad = self.pad_token_id
            if pad is None and any(len(row) < length for row in rows):
                raise BadInput("[padding] the tokenizer has no token for padding")
            rows = [_padded(row, length, pad or 0, padding_side) for row in rows]
            masks = [_padded(mask, length, 0, padding_side) for mask in masks]
        if return_tensors is None:
            return Encoding(input_ids=rows[0] if is_one else rows, attention_mask=masks[0] if is_one else masks)
        if len({len(row) for row in rows}) > 1:
            raise BadInput("[return_tensors] the texts differ in length: give padding=True")
        arrays = [np.array(table, dtype=np.int64) for table in (rows, masks)]
        if return_tensors == "pt":
            torch = importlib.import_module("torch")
            return Encoding(input_ids=torch.from_numpy(arrays[0]), attention_mask=torch.from_numpy(arrays[1]))
        return Encoding(input_ids=arrays[0], attention_mask=arrays[1])


def _padded(row: list[int], length: int, pad: int, side: str) -> list[int]:
    more = [pad] * (length - len(row))
    return more + row if side == "left" else row + more


def _json_of(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _pad_id_of(config: dict[str, Any]) -> int | None:
    pad = config.get("pad_token_id")
    return pad if isinstance(pad, int) and pad >= 0 else None
