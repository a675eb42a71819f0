"""The models and tokens of tests/goldens/lens."""

from __future__ import annotations

import torch

MODELS = ["gpt2", "llama_mha", "mistral"]


def tokens_of(vocab_size: int) -> torch.Tensor:
    """`[3, 8]`"""
    return (torch.arange(24).reshape(3, 8) * 17 + torch.arange(3)[:, None] * 5 + 3) % vocab_size
