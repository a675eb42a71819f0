"""Encoder–decoders: the values, gradients and texts of the program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SOURCE
from test_same_bytes import Program, as_tensors, tensors_of

import vitrine

FOLDERS = SOURCE / "tests" / "goldens" / "pairs"
SOURCE_IDS = [5, 9, 13, 4]  # "cgkb"


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer with a token for each letter, as the goldens of pairs have none."""
    specials = ["<s>", "<pad>", "</s>"]
    pieces = [*specials, *"abcdefghijklmnopqrstuvwxyz"]
    added = [{"id": id, "content": text, "special": True} for id, text in enumerate(specials)]
    model = {"type": "BPE", "merges": [], "vocab": {piece: id for id, piece in enumerate(pieces)}}
    tokenizer = {
        "version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": None, "post_processor": None,
        "decoder": {"type": "Fuse"}, "model": model,
    }  # fmt: skip
    path = tmp_path_factory.mktemp("letters") / "tokenizer.json"
    path.write_text(json.dumps(tokenizer))
    return path


@pytest.fixture(params=sorted(path.name for path in FOLDERS.iterdir() if path.is_dir()))
def pair(request: pytest.FixtureRequest, letters: Path) -> Any:
    folder = FOLDERS / request.param
    return folder, vitrine.load(folder, letters, threads=2), ("--tokenizer", letters)


def test_values_and_gradients(pair: Any, program: Program, tmp_path: Path) -> None:
    folder, model, arguments = pair
    out = tmp_path / "out"
    given = ("cgkb", *arguments, "--target", "ef")
    program("trace", folder, *given, "--gradients", "--out", out)
    logits, cache = model.run_with_cache("cgkb", gradients=True, target="ef")
    assert as_tensors(cache) == tensors_of(out)
    start = json.loads((folder / "config.json").read_text())["decoder_start_token_id"]
    ids = [start, 7, 8]
    program("trace", folder, *given, "--sites", "*hook_logits", "--out", out)
    for found in (
        logits, model.run(SOURCE_IDS, target=ids), model.logits("cgkb", target=np.array(ids)),
        model.run_with_cache(SOURCE_IDS, "*.hook_resid_pre", target="ef")[0],
    ):  # fmt: skip
        assert {"hook_logits": (list(found.shape), found.tobytes())} == tensors_of(out)
    loss = program("grad", folder, *given, "--out", out)["loss"]
    found_loss, gradients = model.grad("cgkb", target="ef")
    assert found_loss == loss
    assert as_tensors(gradients) == tensors_of(out)
    tokens = program("predict", folder, *given, "--top", 3)["tokens"]
    for entry, top in zip(tokens, model.predict("cgkb", 3, target="ef"), strict=True):
        assert [(t["id"], t["logprob"]) for t in entry["top"]] == [(t.id, t.logprob) for t in top]


TEXTS: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
    ({}, ()),
    ({"beam": 3, "n_best": 2, "length_penalty": 0.5, "early_stop": "yes"},
     ("--beam", 3, "--n-best", 2, "--length-penalty", 0.5, "--early-stop", "yes")),
    ({"beam": 2, "repeat_penalty": 1.3}, ("--beam", 2, "--repeat-penalty", 1.3)),
    ({"temperature": 1.5, "prefix": [7, 8]}, ("--temperature", 1.5, "--prefix-ids", "7,8")),
    ({"greedy": True, "prefix": "ef", "target_lang": "k", "min_tokens": 3},
     ("--greedy", "--prefix", "ef", "--target-lang", "k", "--min-tokens", 3)),
    ({"beam": 2, "no_repeat_ngram": 2}, ("--beam", 2, "--no-repeat-ngram", 2)),
]  # fmt: skip


@pytest.mark.parametrize("options", range(len(TEXTS)))
def test_texts(pair: Any, program: Program, options: int) -> None:
    folder, model, arguments = pair
    ours, theirs = TEXTS[options]
    printed = program("generate", folder, "cgkb", *arguments, "--max-tokens", 6, "--seed", 3, *theirs)
    result = model.generate("cgkb", max_tokens=6, seed=3, **ours)
    assert (result.text, result.ids, result.finish_reason) == (printed["text"], printed["ids"], printed["finish_reason"])
    assert result.prompt_ids == SOURCE_IDS and result.score == printed["score"]
    found = [{"text": h.text, "ids": h.ids, "score": h.score} for h in result.hypotheses]
    assert found == printed["hypotheses"]
    assert "".join(model.stream("cgkb", max_tokens=6, seed=3, **ours)) == printed["text"]


def test_hooks_and_writes(pair: Any) -> None:
    _, model, _ = pair
    names = [name for name in model.run_with_cache("cgkb", target="ef")[1] if name.endswith("hook_resid_post")]
    for name in names[:2]:
        hooked = model.run("cgkb", {name: lambda value, site: value * 0}, target="ef")
        assert hooked.tobytes() == model.run("cgkb", writes=[f"{name}=0"], target="ef").tobytes()
        with model.hooks({name: lambda value, site: value * 0}):
            assert model.logits("cgkb", target="ef").tobytes() == hooked.tobytes()


def test_errors(pair: Any, gpt2: vitrine.Model) -> None:
    _, model, _ = pair
    for call in (model.run, model.run_with_cache, model.grad):
        with pytest.raises(vitrine.BadInput, match="target.*encoder–decoder"):
            call("cgkb")
        with pytest.raises(vitrine.BadInput, match="9999"):
            call("cgkb", target=[0, 9999])
        with pytest.raises(vitrine.BadInput):
            call([], target=[0, 5])
    with pytest.raises(vitrine.BadInput, match="early_stop.*no, yes or never"):
        model.generate("cgkb", beam=2, early_stop="maybe")
    with pytest.raises(vitrine.BadInput, match="beam"):
        model.generate("cgkb", beam=0)
    with pytest.raises(vitrine.BadInput, match="no token fr_XX"):
        model.generate("cgkb", target_lang="fr_XX")
    for target in ("ef", [1, 2]):
        with pytest.raises(vitrine.BadInput, match="target.*no encoder"):
            gpt2.run([1, 2, 3], target=target)
    with pytest.raises(vitrine.BadInput, match="no encoder"):
        gpt2.generate([1, 2, 3], prefix=[5])


def test_beams_of_a_decoder(model: vitrine.Model, program: Program) -> None:
    folder = SOURCE / "models" / "default"
    printed = program("generate", folder, "Once upon a time", "--max-tokens", 8, "--beam", 4, "--n-best", 3)
    result = model.generate("Once upon a time", max_tokens=8, beam=4, n_best=3)
    assert [h.text for h in result.hypotheses] == [h["text"] for h in printed["hypotheses"]]
    assert result.score == printed["score"] and result.text == printed["text"]
    assert model.generate("Once upon a time", max_tokens=3).hypotheses == []
