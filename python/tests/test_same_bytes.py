"""The package gives the bytes of the program and of the C library."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SOURCE, TEXT, build_folder

import vitrine

FOLDER = SOURCE / "models" / "default"
Program = Callable[..., Any]


def tensors_of(path: Path) -> dict[str, tuple[list[int], bytes]]:
    """The tensors of a safetensors file."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header.pop("__metadata__", None)
    return {
        name: (entry["shape"], data[end + entry["data_offsets"][0] : end + entry["data_offsets"][1]])
        for name, entry in header.items()
    }


def as_tensors(arrays: dict[str, Any]) -> dict[str, tuple[list[int], bytes]]:
    return {name: (list(array.shape), array.tobytes()) for name, array in arrays.items()}


def test_texts(model: vitrine.Model, program: Program) -> None:
    printed = program("generate", FOLDER, TEXT, "--max-tokens", 20, "--seed", 5, "--logprobs", 2)
    ours = model.generate(TEXT, max_tokens=20, seed=5, logprobs=2)
    assert (ours.text, ours.ids, ours.prompt_ids) == (printed["text"], printed["ids"], printed["prompt_ids"])
    assert (ours.finish_reason, ours.seed) == (printed["finish_reason"], printed["seed"])
    for report, entry in zip(ours.logprobs, printed["logprobs"]):
        assert (report.id, report.piece, report.logprob) == (entry["id"], entry["piece"], entry["logprob"])
        assert [(t.id, t.logprob) for t in report.top] == [(t["id"], t["logprob"]) for t in entry["top"]]
    tokens = program("predict", FOLDER, TEXT, "--top", 4)["tokens"]
    for entry, top in zip(tokens, model.predict(TEXT, 4)):
        assert [(t["id"], t["piece"], t["logprob"]) for t in entry["top"]] == [(t.id, t.piece, t.logprob) for t in top]
    info = program("info", FOLDER)
    assert {**model.info(), "name": info["name"]} == info


def test_values(model: vitrine.Model, program: Program, tmp_path: Path) -> None:
    program("logits", FOLDER, TEXT, "--out", tmp_path / "logits.npy")
    assert np.load(tmp_path / "logits.npy").tobytes() == model.logits(TEXT).tobytes()
    program("trace", FOLDER, TEXT, "--gradients", "--out", tmp_path / "trace")
    assert as_tensors(model.run_with_cache(TEXT, gradients=True)[1]) == tensors_of(tmp_path / "trace")
    loss = program("grad", FOLDER, TEXT, "--out", tmp_path / "grad")["loss"]
    found, gradients = model.grad(TEXT)
    assert found == loss
    assert as_tensors(gradients) == tensors_of(tmp_path / "grad")


def test_the_c_library(model: vitrine.Model) -> None:
    path = build_folder() / "libvitrine_c.so.1"
    if not path.exists():
        pytest.skip("the C library is not built")
    c = ctypes.CDLL(str(path))
    handle, ids = ctypes.c_void_p(), model.ids(TEXT)
    array = (ctypes.c_int32 * len(ids))(*ids)
    size = ctypes.c_size_t(len(ids))
    assert c.vitrine_open(str(FOLDER).encode(), b'{"threads": 2}', ctypes.byref(handle)) == 0
    rows: list[bytes] = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t)
    def keep(user: Any, position: int, row: Any, vocab: int) -> int:
        rows.append(ctypes.string_at(row, 4 * vocab))
        return 0

    assert c.vitrine_logits(handle, array, size, keep, None) == 0
    assert b"".join(rows) == model.logits(TEXT).tobytes()
    text = ctypes.c_char_p()
    options = b'{"max_tokens": 12, "seed": 3}'
    assert c.vitrine_generate(handle, array, size, options, None, None, ctypes.byref(text)) == 0
    assert text.value is not None
    assert json.loads(text.value)["ids"] == model.generate(TEXT, max_tokens=12, seed=3).ids
    c.vitrine_free(text)
    c.vitrine_close(handle)


def test_training(train_config: dict[str, Any], program: Program, tmp_path: Path) -> None:
    other = {**train_config, "out": {"folder": str(tmp_path / "other")}}
    lines = []
    for section, keys in other.items():
        tables = {k: v for k, v in keys.items() if isinstance(v, dict)}
        lines.append(f"[{section}]")
        lines += [f"{k} = {json.dumps(v)}" for k, v in keys.items() if k not in tables]
        for name, table in tables.items():
            lines.append(f"[{section}.{name}]")
            lines += [f"{k} = {json.dumps(v)}" for k, v in table.items()]
    toml = tmp_path / "other.toml"
    toml.write_text("\n".join(lines) + "\n")
    printed = program("train", toml)
    steps: list[vitrine.Step] = []
    result = vitrine.train(train_config, on_step=steps.append)
    assert [s.step for s in steps] == list(range(1, 11))
    assert (result.step, result.loss, result.val_loss) == (printed["step"], printed["loss"], printed["val_loss"])
    for name in ("model.safetensors", "trainer_state.safetensors", "config.json", "trainer_state.json"):
        ours, theirs = (Path(path) / name for path in (result.checkpoint, printed["checkpoint"]))
        assert ours.read_bytes().replace(b"/run", b"/other") == theirs.read_bytes(), name
