"""Which elements of a dimension a call selects."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


class Slice:
    """None: all; an integer: one, and the dimension goes; a tuple: the arguments of ``slice``; a list or an array: these
    indices, or a mask."""

    def __init__(self, input_slice: Any = None) -> None:
        self.slice: Any
        if input_slice is None:
            self.slice, self.mode = slice(None), "identity"
        elif isinstance(input_slice, tuple):
            self.slice, self.mode = slice(*input_slice), "slice"
        elif isinstance(input_slice, slice):
            self.slice, self.mode = input_slice, "slice"
        elif isinstance(input_slice, (int, np.integer)):
            self.slice, self.mode = int(input_slice), "int"
        elif isinstance(input_slice, (list, np.ndarray)):
            self.slice, self.mode = np.asarray(input_slice), "array"
        elif isinstance(input_slice, torch.Tensor):
            self.slice, self.mode = input_slice.detach().cpu().numpy(), "array"
        else:
            raise ValueError(f"Invalid input_slice {input_slice}")

    @classmethod
    def of(cls, given: Any) -> Slice:
        return given if isinstance(given, Slice) else cls(given)

    @classmethod
    def unwrap(cls, given: Any) -> Slice:
        """The same, but an integer keeps its dimension."""
        return cls.of([given] if isinstance(given, int) else given)

    def apply(self, tensor: torch.Tensor, dim: int = 0) -> torch.Tensor:
        index: list[Any] = [slice(None)] * tensor.ndim
        index[dim] = self.slice
        return tensor[tuple(index)]

    def indices(self, max_ctx: int | None = None) -> Any:
        if self.mode == "int":
            return np.array([self.slice], dtype=np.int64)
        if max_ctx is None:
            raise ValueError("max_ctx must be specified if slice is not an integer")
        return np.arange(max_ctx, dtype=np.int64)[self.slice]

    def __repr__(self) -> str:
        return f"Slice: {self.slice} Mode: {self.mode}"
