"""Tokenizers."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import SOURCE, TEXT

import vitrine

FOLDER = SOURCE / "models" / "default"


def test_ids_and_texts(model: vitrine.Model, program: Callable[..., Any]) -> None:
    tokenizer = vitrine.Tokenizer(FOLDER)
    printed = program("tokenize", FOLDER, TEXT)
    for t in (tokenizer, model.tokenizer):
        assert t.encode(TEXT) == printed["ids"]
        assert t.convert_ids_to_tokens(printed["ids"]) == printed["pieces"]
        assert TEXT in t.decode(printed["ids"])
        assert t.decode(t.encode(TEXT, add_special_tokens=False)) == TEXT
        assert t.batch_decode([t.encode(TEXT)], skip_special_tokens=True) == [TEXT]
        assert t.bos_token_id == tokenizer.bos_token_id and t.eos_token_id in t.eos_token_ids
        assert len(t) == t.vocab_size == model.vocab_size


def test_batches(model: vitrine.Model) -> None:
    t = model.tokenizer
    texts = [TEXT, "Once"]
    plain = t(texts)
    assert plain["input_ids"] == plain.input_ids == [t.encode(text) for text in texts]
    padded = t(texts, padding=True, return_tensors="np")
    assert padded.input_ids.shape == padded.attention_mask.shape == (2, len(plain.input_ids[0]))
    assert padded.attention_mask.sum(axis=1).tolist() == [len(row) for row in plain.input_ids]
    assert (padded.input_ids[1][len(plain.input_ids[1]) :] == t.pad_token_id).all()
    left = t(texts, padding="max_length", max_length=9, truncation=True, padding_side="left", return_tensors="np")
    assert left.input_ids.shape == (2, 9) and left.attention_mask[1, 0] == 0 and left.attention_mask[1, -1] == 1
    assert t(TEXT, return_tensors="np").input_ids.dtype == np.int64
    for wrong in ({"return_tensors": "tf"}, {"padding": "x"}, {"truncation": True}, {"return_tensors": "np"}):
        with pytest.raises(vitrine.BadInput):
            t(texts, **wrong)
    t.padding_side = "left"
    assert t(texts, padding=True).attention_mask[1][0] == 0
    t.padding_side = "right"


def test_special_tokens(model: vitrine.Model) -> None:
    t = model.tokenizer
    assert t.bos_token is not None and t.eos_token is not None and t.pad_token is not None
    assert t.convert_tokens_to_ids(t.eos_token) == t.eos_token_id == t.vocab[t.eos_token]
    text = TEXT + t.eos_token
    assert t.encode(text, add_special_tokens=False)[-1] == t.eos_token_id
    assert t.eos_token_id not in t.encode(text, add_special_tokens=False, split_special_tokens=True)
    plain = t.encode(text, add_special_tokens=False, split_special_tokens=True)
    both = t.encode(text, split_special_tokens=True)
    at = both.index(plain[0])
    assert both[at : at + len(plain)] == plain and len(both) > len(plain)


def test_a_pickle_holds_the_path(model: vitrine.Model) -> None:
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.logits(TEXT), model.logits(TEXT))
    assert pickle.loads(pickle.dumps(model.tokenizer)).encode(TEXT) == model.tokenizer.encode(TEXT)
