"""The examples of docs/python.md run, one after the other."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import SOURCE


def test_the_examples_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (SOURCE / "docs" / "python.md").read_text(), re.S)
    names: dict[str, Any] = {}
    assert len(blocks) > 5
    for block in blocks:
        if block.startswith("# Needs PyTorch") and importlib.util.find_spec("torch") is None:
            continue
        if not block.startswith("# Not run"):
            exec(compile(block, "docs/python.md", "exec"), names)
