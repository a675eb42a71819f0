"""vitrine.hf against transformers' own models in float32 with eager attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import GOLDENS, SOURCE, TEXT

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from vitrine import BadInput, Unsupported  # noqa: E402
from vitrine.hf import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

FAMILIES = ["gpt2", "llama_mha", "llama_gqa_bf16_sharded", "gemma2", "mistral", "olmo2", "falcon", "gpt_neox", "qwen3"]
IDS = [[5, 17, 3, 9, 20, 2, 11, 8], [1, 2, 3, 4, 5, 6, 7, 8]]
NO_MASK = [[1] * 8, [1] * 8]
RIGHT = [[1] * 8, [1] * 5 + [0] * 3]
LEFT = [[0] * 3 + [1] * 5, [1] * 8]


@pytest.fixture(params=FAMILIES)
def folder(request: Any) -> Path:
    return GOLDENS / request.param


def both(folder: Path) -> tuple[Any, Any]:
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, threads=1), theirs


def close(ours: Any, theirs: Any, mask: Any) -> None:
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    limit = 1e-5 * max(1.0, float(theirs.abs().max()))
    for row, first in enumerate(np.asarray(mask, bool).argmax(axis=1)):  # values of left padding have no meaning
        difference = (ours[row] - theirs[row])[..., first:, :]
        assert float(difference.abs().max()) < limit


@pytest.mark.parametrize("mask", [NO_MASK, RIGHT, LEFT], ids=["no_mask", "right", "left"])
def test_values(folder: Path, mask: list[list[int]]) -> None:
    ours, theirs = both(folder)
    predicted = torch.tensor([[0, *(a & b for a, b in zip(row, row[1:]))] for row in mask])
    options: dict[str, Any] = {
        "attention_mask": torch.tensor(mask),
        "labels": torch.tensor(IDS).masked_fill(predicted == 0, -100),
        "output_hidden_states": True,
        "output_attentions": True,
    }
    with torch.no_grad():
        expected = theirs(torch.tensor(IDS), use_cache=False, **options)
    out = ours(torch.tensor(IDS), **options)
    assert list(out) == [name for name in expected if name != "cross_attentions"]  # GPT-2's is empty
    assert out[1] is out.logits is out["logits"]
    assert out.loss.item() == pytest.approx(expected.loss.item(), abs=1e-5)
    close(out.logits, expected.logits, mask)
    assert len(out.hidden_states) == len(expected.hidden_states)
    assert len(out.attentions) == len(expected.attentions)
    for mine, reference in zip(out.hidden_states + out.attentions, expected.hidden_states + expected.attentions):
        close(mine, reference, mask)


@pytest.mark.parametrize("eos", [{}, {"eos_token_id": None}, {"eos_token_id": 7}, {"eos_token_id": [7, 8, 9, 10]}])
def test_greedy_texts(folder: Path, eos: dict[str, Any]) -> None:
    ours, theirs = both(folder)
    prompt, mask = torch.tensor(IDS)[:, :6], torch.tensor(LEFT)[:, :6]
    options = {"attention_mask": mask, "max_new_tokens": 10, "do_sample": False, "pad_token_id": 0, **eos}
    with torch.no_grad():
        expected = theirs.generate(prompt, **options)
    assert ours.generate(prompt, **options).tolist() == expected.tolist()


def test_arguments() -> None:
    model = AutoModelForCausalLM.from_pretrained(SOURCE / "models" / "default", attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(SOURCE / "models" / "default", padding_side="left")
    batch = tokenizer([TEXT, "Once"], padding=True, return_tensors="pt").to(model.device)
    out = model(**batch)
    assert out.loss is out.hidden_states is out.attentions is None
    assert isinstance(model(**batch, return_dict=False), tuple)
    assert model.config.num_hidden_layers == model.vitrine.n_layers
    alone = model(tokenizer("Once", return_tensors="pt").input_ids)
    np.testing.assert_allclose(out.logits[1, -1], alone.logits[0, -1], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(alone.logits[0], model.vitrine.logits("Once"))
    torch.manual_seed(1)
    first = model.generate(**batch, max_new_tokens=5, do_sample=True)
    torch.manual_seed(1)
    assert first.tolist() == model.generate(**batch, max_new_tokens=5, do_sample=True).tolist()
    with pytest.raises(AttributeError):
        _ = out.nothing
    with pytest.raises(BadInput, match="input_ids"):
        model(torch.tensor([1, 2]))
    with pytest.raises(BadInput, match="attention_mask"):
        model(torch.tensor([[1, 2]]), attention_mask=torch.tensor([[1]]))
    with pytest.raises(Unsupported, match="dtype"):
        AutoModelForCausalLM.from_pretrained(SOURCE / "models" / "default", dtype=torch.bfloat16)
    with pytest.raises(Unsupported, match="device"):
        model.to("cuda")
