"""The types of the package, as mypy sees them from outside."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

SAMPLE = '''
import numpy as np
import numpy.typing as npt
import vitrine

model: vitrine.Model = vitrine.load(threads=1)
text: str = model.generate("Once", max_tokens=3).text
pieces: list[str] = list(model.stream([1, 2, 3]))
logits, cache = model.run_with_cache("Once")
shape: tuple[int, ...] = cache["hook_embed"].shape


def hook(value: npt.NDArray[np.float32], site: vitrine.Site) -> None:
    reveal_type(site.layer)


model.run("Once", hooks={"hook_embed": hook})
loss, gradients = model.grad([1, 2])
found: list[vitrine.Hypothesis] = model.generate("Once", beam=2, n_best=2).hypotheses
shape = model.run([1, 2], target="Once").shape
for step in vitrine.Trainer("config.toml"):
    print(step.loss + 1)
'''


def test_a_sample_is_strict(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(SAMPLE)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(sample)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Union[builtins.int, None]" in run.stdout or "int | None" in run.stdout


def test_the_stubs_are_those_of_the_extension(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "vitrine", "--concise"]
    if importlib.util.find_spec("transformer_lens") is None:  # these two import it
        absent = tmp_path / "absent.txt"
        absent.write_text("vitrine.lens._driver\nvitrine.lens.bridge\n")
        command += ["--allowlist", str(absent)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
