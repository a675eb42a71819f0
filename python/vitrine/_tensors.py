"""Tensors of checkpoints as arrays, and arrays as tensors of checkpoints."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _engine
from ._errors import BadInput


class BFloat16:
    """A tensor of bfloat16, which NumPy lacks. ``torch.from_dlpack(t)`` shares its memory, and so does
    ``np.asarray(t)`` if the package ml_dtypes is installed."""

    def __init__(self, bits: npt.NDArray[np.uint16]) -> None:
        self.bits = bits  #: The 16 bits of each element.

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bits.shape

    @property
    def dtype(self) -> str:
        return "bfloat16"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = self.bits.view(importlib.import_module("ml_dtypes").bfloat16)
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(self, **options: Any) -> object:
        return _engine.bfloat16_of(self.bits).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        return f"BFloat16(shape={self.shape})"


def tensor_of(kind: str, array: npt.NDArray[Any]) -> Any:
    """A tensor as the engine gives it: 16-bit types as integers."""
    if kind == "f16":
        return array.view(np.float16)
    return BFloat16(array) if kind == "bf16" else array


def entries_of(tensors: Mapping[str, Any]) -> list[tuple[str, str, npt.NDArray[Any]]]:
    """(name, type, array) of NumPy arrays, PyTorch tensors and BFloat16."""
    return [(name, *_entry(name, tensor)) for name, tensor in tensors.items()]


def _entry(name: str, tensor: Any) -> tuple[str, npt.NDArray[Any]]:
    if isinstance(tensor, BFloat16):
        return "bf16", np.ascontiguousarray(tensor.bits)
    if hasattr(tensor, "detach"):  # of PyTorch
        tensor = tensor.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":
            return "bf16", np.ascontiguousarray(tensor.view(importlib.import_module("torch").uint16).numpy())
        tensor = tensor.numpy()
    array = np.asarray(tensor)
    array = array if array.flags.c_contiguous else np.ascontiguousarray(array)
    if array.dtype == np.float32:
        return "f32", array
    if array.dtype == np.float16:
        return "f16", array.view(np.uint16)
    if array.dtype.name == "bfloat16":
        return "bf16", array.view(np.uint16)
    raise BadInput(f"[{name}] expected a tensor of float32, float16 or bfloat16, got {array.dtype}")
