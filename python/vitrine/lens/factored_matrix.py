"""Products of two matrices that are kept as their factors."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor


class FactoredMatrix:
    """``A @ B``, with A ``[…, ldim, mdim]`` and B ``[…, mdim, rdim]``. The product itself is computed only on demand."""

    def __init__(self, A: Tensor, B: Tensor) -> None:
        assert A.size(-1) == B.size(-2), f"inner dimensions differ: {tuple(A.shape)}, {tuple(B.shape)}"
        leading: torch.Size = torch.broadcast_shapes(A.shape[:-2], B.shape[:-2])  # type: ignore[no-untyped-call]
        self.A = A.expand(leading + A.shape[-2:])
        self.B = B.expand(leading + B.shape[-2:])
        self.ldim, self.mdim, self.rdim = A.size(-2), A.size(-1), B.size(-1)
        self.has_leading_dims = len(leading) > 0
        self.shape = leading + (self.ldim, self.rdim)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def AB(self) -> Tensor:
        return self.A @ self.B

    @property
    def BA(self) -> Tensor:
        assert self.ldim == self.rdim, f"BA needs a square matrix, got {tuple(self.shape)}"
        return self.B @ self.A

    @property
    def T(self) -> FactoredMatrix:
        return FactoredMatrix(self.B.transpose(-2, -1), self.A.transpose(-2, -1))

    @property
    def pair(self) -> tuple[Tensor, Tensor]:
        return self.A, self.B

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, FactoredMatrix):
            return (self @ other.A) @ other.B
        if other.ndim < 2:
            return (self.A @ (self.B @ other.unsqueeze(-1))).squeeze(-1)
        assert other.size(-2) == self.rdim, f"sizes differ: {tuple(self.shape)}, {tuple(other.shape)}"
        # The smaller inner dimension is kept.
        return FactoredMatrix(self.A, self.B @ other) if self.rdim > self.mdim else FactoredMatrix(self.AB, other)

    def __rmatmul__(self, other: Any) -> Any:
        assert other.size(-1) == self.ldim, f"sizes differ: {tuple(other.shape)}, {tuple(self.shape)}"
        if other.ndim < 2:
            return (other.unsqueeze(-2) @ self.A @ self.B).squeeze(-2)
        return FactoredMatrix(other @ self.A, self.B) if self.ldim > self.mdim else FactoredMatrix(other, self.AB)

    def __mul__(self, scalar: float | Tensor) -> FactoredMatrix:
        assert not isinstance(scalar, Tensor) or scalar.numel() == 1, "* needs a number; @ multiplies matrices"
        return FactoredMatrix(self.A * scalar, self.B)

    __rmul__ = __mul__

    def __getitem__(self, index: Any) -> FactoredMatrix:
        given = index if isinstance(index, tuple) else (index,)
        n = sum(entry is not None for entry in given)
        leading = self.ndim - 2
        if n <= leading:
            return FactoredMatrix(self.A[given], self.B[given])
        if n > self.ndim:
            raise ValueError(f"{index} is too long an index for a FactoredMatrix with shape {tuple(self.shape)}")
        last = [_kept(entry) for entry in given[len(given) - (n - leading) :]]
        front = given[: len(given) - (n - leading)]
        rows, columns = last[0], last[1] if len(last) > 1 else slice(None)
        return FactoredMatrix(self.A[(*front, rows)], self.B[(*front, slice(None), columns)])

    @cached_property
    def _svd(self) -> tuple[Tensor, Tensor, Tensor]:
        # The SVD of the small matrix between two orthogonal ones: A = Ua Sa Vaᵀ, B = Ub Sb Vbᵀ.
        Ua, Sa, Vha = torch.linalg.svd(self.A, full_matrices=False)
        Ub, Sb, Vhb = torch.linalg.svd(self.B, full_matrices=False)
        U, S, Vh = torch.linalg.svd(Sa[..., :, None] * (Vha @ Ub) * Sb[..., None, :], full_matrices=False)
        return Ua @ U, S, Vhb.transpose(-2, -1) @ Vh.transpose(-2, -1)

    def svd(self) -> tuple[Tensor, Tensor, Tensor]:
        """U, S and V: ``U · diag(S) · Vᵀ``."""
        return self._svd

    @property
    def U(self) -> Tensor:
        return self._svd[0]

    @property
    def S(self) -> Tensor:
        return self._svd[1]

    @property
    def V(self) -> Tensor:
        return self._svd[2]

    @property
    def Vh(self) -> Tensor:
        """V, as in TransformerLens; not its transpose."""
        return self._svd[2]

    @property
    def eigenvalues(self) -> Tensor:
        values: Tensor = torch.linalg.eigvals(self.BA)
        return values

    def norm(self) -> Tensor:
        """Of Frobenius."""
        return self.S.pow(2).sum(-1).sqrt()

    def make_even(self) -> FactoredMatrix:
        """The same product, of factors with the same singular values."""
        root = self.S.sqrt()
        return FactoredMatrix(self.U * root[..., None, :], root[..., :, None] * self.V.transpose(-2, -1))

    def collapse_l(self) -> Tensor:
        """A matrix `[…, mdim, rdim]` that differs from the product by an orthogonal factor on its left."""
        return self.S[..., :, None] * self.V.transpose(-2, -1)

    def collapse_r(self) -> Tensor:
        """A matrix `[…, ldim, mdim]` that differs from the product by an orthogonal factor on its right."""
        return self.U * self.S[..., None, :]

    def unsqueeze(self, k: int) -> FactoredMatrix:
        return FactoredMatrix(self.A.unsqueeze(k), self.B.unsqueeze(k))

    def get_corner(self, k: int = 3) -> Tensor:
        corner = self.A[..., :k, :] @ self.B[..., :, :k]
        return corner[tuple(slice(k) for _ in range(corner.ndim))]

    def __repr__(self) -> str:
        return f"FactoredMatrix: Shape({tuple(self.shape)}), Hidden Dim({self.mdim})"


def _kept(entry: Any) -> Any:
    """An index that keeps its dimension."""
    if isinstance(entry, int):
        return slice(entry, entry + 1 if entry != -1 else None)
    return entry
