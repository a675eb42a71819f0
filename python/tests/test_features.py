"""Dictionaries of features: sites of the model, also in hooks."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import GOLDENS

import vitrine

SITE = "blocks.1.hook_resid_post"
ACTS = SITE + ".hook_sae_acts_post"
IDS = [3, 1, 4, 1, 5, 9, 2, 6]
WIDTH, N_FEATURES = 24, 40


def write_sae(folder: Path) -> Path:
    """A SAELens folder with random weights."""
    rng = np.random.default_rng(1)
    tensors = {
        "W_enc": rng.normal(size=(WIDTH, N_FEATURES)),
        "b_enc": rng.normal(size=N_FEATURES),
        "W_dec": rng.normal(size=(N_FEATURES, WIDTH)) * 0.3,
        "b_dec": rng.normal(size=WIDTH),
    }
    header: dict[str, Any] = {}
    data = b""
    for name, value in tensors.items():
        own = value.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": value.shape, "data_offsets": [len(data), len(data) + len(own)]}
        data += own
    folder.mkdir()
    text = json.dumps(header).encode()
    (folder / "sae_weights.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    config = {"architecture": "standard", "d_in": WIDTH, "d_sae": N_FEATURES, "metadata": {"hook_name": SITE}}
    (folder / "cfg.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def sae(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sae(tmp_path_factory.mktemp("saes") / "sae")


@pytest.fixture(scope="module")
def model(sae: Path) -> vitrine.Model:
    return vitrine.load(GOLDENS / "gpt2", threads=2, saes=[sae])


def test_features_are_those_of_the_program(model: vitrine.Model, sae: Path, program: Callable[..., Any]) -> None:
    found = model.features(IDS, top=3)
    text = ",".join(map(str, IDS))
    assert found == program("features", GOLDENS / "gpt2", "--ids", text, "--sae", sae, "--top", 3)
    assert found["ids"] == IDS
    (own,) = found["saes"]
    assert (own["name"], own["site"], own["d_in"], own["d_sae"]) == (None, SITE, WIDTH, N_FEATURES)
    _, cache = model.run_with_cache(IDS, ACTS)
    for row, token in zip(cache[ACTS], own["tokens"]):
        order = np.argsort(-row, kind="stable")[:3]
        assert [entry["index"] for entry in token] == [int(i) for i in order if row[i] > 0]
        assert [np.float32(entry["value"]) for entry in token] == [row[i] for i in order if row[i] > 0]
    assert len(model.features(IDS)["saes"][0]["tokens"][0]) == 5
    with pytest.raises(vitrine.BadInput, match="top of at least 1"):
        model.features(IDS, top=0)


def test_a_dictionary_that_only_reads_changes_no_bit(model: vitrine.Model, gpt2: vitrine.Model) -> None:
    assert np.array_equal(model.logits(IDS), gpt2.logits(IDS))
    logits, cache = model.run_with_cache(IDS, "*.hook_sae_*")
    assert np.array_equal(logits, gpt2.logits(IDS))
    assert set(cache) == {f"{SITE}.hook_sae_{value}" for value in ("input", "recons", "error", "output")}


def test_hooks_steer(model: vitrine.Model, sae: Path, program: Callable[..., Any]) -> None:
    def steer(value: np.ndarray[Any, Any], site: vitrine.Site) -> None:
        assert site.name == ACTS
        value[:, 7] += 30

    write = f"{ACTS}[:,7]+=30"
    steered = model.run(IDS, {ACTS: steer})
    assert np.array_equal(steered, model.run(IDS, writes=[write]))
    assert not np.array_equal(steered, model.logits(IDS))
    with model.hooks({"*.hook_sae_acts_post": steer}):
        assert np.array_equal(model.logits(IDS), steered)
        text = model.generate(IDS, max_tokens=6, temperature=0)
    ids = ",".join(map(str, IDS))
    options = ("--ids", ids, "--sae", sae, "--set", write, "--max-tokens", 6, "--greedy")
    assert text.ids == program("generate", GOLDENS / "gpt2", *options)["ids"]
    _, gradients = model.run_with_cache(IDS, ACTS, gradients=True)
    assert gradients[ACTS + "_grad"].shape == (len(IDS), N_FEATURES)


def test_names_uses_and_skipped_tokens(sae: Path, gpt2: vitrine.Model) -> None:
    named = vitrine.load(GOLDENS / "gpt2", saes=[f"a={sae}", f"b={sae}@blocks.0.hook_resid_post"], sae_skip=[4, 9])
    found = named.features(IDS)
    assert [(own["name"], own["site"]) for own in found["saes"]] == [("a", SITE), ("b", "blocks.0.hook_resid_post")]
    assert [bool(token) for token in found["saes"][0]["tokens"]] == [id not in (4, 9) for id in IDS]
    replaced = vitrine.load(GOLDENS / "gpt2", saes=[sae], sae_use="replace")
    assert not np.allclose(replaced.logits(IDS), gpt2.logits(IDS), atol=1e-3)
    with pytest.raises(vitrine.BadInput, match="expected read, error or replace"):
        vitrine.load(GOLDENS / "gpt2", saes=[sae], sae_use="write")
    with pytest.raises(vitrine.BadInput, match="give each a name"):
        vitrine.load(GOLDENS / "gpt2", saes=[sae, sae])
    with pytest.raises(vitrine.BadInput, match="without dictionaries"):
        gpt2.features(IDS)
