"""Values by the names of their sites, and their comparison."""

import torch
from torch import Tensor

TOLERANCES = {torch.float32: 5e-6, torch.float64: 1e-11}  # of recomputed values, relative to the largest of the tensor

Sites = dict[str, Tensor]


def assert_close(got: Tensor, want: Tensor, what: str) -> None:
    """Asserts that the recomputed value equals the captured one up to rounding."""
    assert got.shape == want.shape, f"{what}: shape {tuple(got.shape)} != {tuple(want.shape)}"
    error = (got - want).abs().max().item()
    bound = TOLERANCES[want.dtype] * max(1.0, want.abs().max().item())
    assert error <= bound, f"{what}: recomputed value is off by {error:.3g} (allowed {bound:.3g})"
