"""What the tests of the Python package share."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vitrine

SOURCE = Path(__file__).parents[2]
GOLDENS = SOURCE / "tests" / "goldens"
TEXT = "Once upon a time there was"


def build_folder() -> Path:
    """The folder of the program and of the C library."""
    return Path(os.environ.get("VITRINE_BUILD", SOURCE / "build"))


@pytest.fixture(scope="session")
def model() -> vitrine.Model:
    """The default model."""
    return vitrine.load(threads=2)


@pytest.fixture(scope="session")
def gpt2() -> vitrine.Model:
    """A small model with random weights; it has no tokenizer."""
    return vitrine.load(GOLDENS / "gpt2", threads=1)


@pytest.fixture(scope="session")
def program() -> Callable[..., Any]:
    """Runs the program, with --json. Returns what it prints."""
    path = build_folder() / "vitrine"
    if not path.exists():
        pytest.skip("the program is not built")

    def run(*arguments: object) -> Any:
        words = [str(path), *map(str, arguments), "--json"]
        return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)

    return run


@pytest.fixture
def train_config(tmp_path: Path, program: Callable[..., Any]) -> dict[str, Any]:
    """A small model on a small corpus: ten steps."""
    text = tmp_path / "text.txt"
    text.write_text("".join(f"the {i * 37 % 101} cat sat on the mat, and so on.\n" for i in range(300)))
    tokenizer, tokens = tmp_path / "tokenizer.json", tmp_path / "tokens"
    program("tokenizer", "train", text, "--model", "char", "--out", tokenizer)
    program("data", "pack", text, "--tokenizer", tokenizer, "--out", tokens)
    size = len(set(text.read_text()))
    return {
        "model": {
            "init": "gpt2",
            "config": {
                "model_type": "vitrine", "d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 32, "vocab_size": size,
                "max_seq_len": 16, "positions": "learned", "norm": "layer", "activation": "gelu", "gated": False,
                "tied": True,
            },
        },
        "data": {"train": str(tokens), "tokenizer": str(tokenizer), "validation_fraction": 0.1},
        "train": {"steps": 10, "batch": 4, "seq_len": 12},
        "schedule": {"lr": 1e-2},
        "out": {"folder": str(tmp_path / "run")},
    }
