"""Models: generation, values, hooks, gradients."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import GOLDENS, SOURCE, TEXT

import vitrine

IDS = [5, 17, 3, 9, 30, 2, 11]


def test_it_opens_the_default_model(model: vitrine.Model) -> None:
    assert model.vocab_size == model.config["vocab_size"]
    assert model.info()["params"] > 1e6
    assert "Model" in repr(model)
    assert model.ids(TEXT) == model.tokenizer(TEXT).input_ids
    assert vitrine.__version__ == "0.1.0"


def test_control_vectors_change_it(program: Callable[..., Any], tmp_path: Path) -> None:
    pairs, file = tmp_path / "pairs.jsonl", str(tmp_path / "c.gguf")
    pairs.write_text(json.dumps({"positive": "I am happy", "negative": "I am sad"}) + "\n")
    program("control", "make", vitrine.DEFAULT_MODEL, pairs, "--out", file)
    plain = vitrine.load(threads=2).logits(TEXT)
    for model, option in (
        (vitrine.load(threads=2, controls=[file]), file),
        (vitrine.load(threads=2, controls={file: 2}), f"{file}=2"),
        (vitrine.load(threads=2, controls={file: (2.0, (1, 2))}), f"{file}=2:1-2"),
    ):
        arguments = ("--control", option, "--max-tokens", 8, "--seed", 3)
        expected = program("generate", vitrine.DEFAULT_MODEL, TEXT, *arguments)
        assert model.generate(TEXT, max_tokens=8, seed=3).text == expected["text"]
        assert not np.array_equal(model.logits(TEXT), plain)
    with pytest.raises(vitrine.BadInput):
        vitrine.load(controls=[str(tmp_path / "none.gguf")])


def test_a_text_is_what_its_ids_are(model: vitrine.Model) -> None:
    ids = model.ids(TEXT)
    prompts: list[vitrine.Prompt] = [ids, tuple(ids), np.array(ids), np.array([ids]), np.array(ids, dtype=np.uint16)]
    for prompt in prompts:
        assert model.generate(prompt, max_tokens=4).ids == model.generate(TEXT, max_tokens=4).ids


@pytest.mark.parametrize("prompt", [[1.5], [[1], [2]], [2**40], [-1], [10**6]])
def test_bad_ids_are_refused(model: vitrine.Model, prompt: object) -> None:
    with pytest.raises(vitrine.BadInput, match="ids"):
        model.logits(prompt)  # type: ignore[arg-type]


def test_a_stream_is_the_text_in_pieces(model: vitrine.Model) -> None:
    whole = model.generate(TEXT, max_tokens=30, seed=3, logprobs=2)
    stream = model.stream(TEXT, max_tokens=30, seed=3, logprobs=2)
    pieces = list(stream)
    assert "".join(pieces) == whole.text and len(pieces) > 5
    assert stream.result == whole
    assert [report.id for report in whole.logprobs] == whole.ids
    assert all(len(report.top) == 2 for report in whole.logprobs)
    for piece in model.stream(TEXT, max_tokens=1000):
        break  # ends the work
    stream = model.stream(TEXT)
    next(stream)
    stream.close()
    assert list(stream) == []
    with pytest.raises(vitrine.BadInput, match="closed"):
        _ = stream.result


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_an_encoder_reads_the_prompt(name: str, program: Callable[..., Any]) -> None:
    folder = SOURCE / "tests" / "goldens" / "pairs" / name
    model = vitrine.load(folder)
    expected = program("generate", str(folder), "--ids", "5,9,13", "--max-tokens", "6", "--greedy", "--beam", "1")
    assert model.generate([5, 9, 13], max_tokens=6, greedy=True).ids == expected["ids"]
    for call in (model.logits, model.predict):
        with pytest.raises(vitrine.Unsupported, match="encoder"):
            call([5, 9, 13])
    for call in (model.run, model.grad):
        with pytest.raises(vitrine.BadInput, match="decoder"):
            call([5, 9, 13])


def test_options_of_generation(model: vitrine.Model) -> None:
    greedy = model.generate(TEXT, max_tokens=8, greedy=True)
    assert greedy.ids == model.generate(TEXT, max_tokens=8, temperature=0).ids
    assert greedy.finish_reason == "length" and len(greedy.ids) == 8 and greedy.prompt_ids == model.ids(TEXT)
    letter = greedy.text.strip()[0]
    stopped = model.generate(TEXT, max_tokens=8, greedy=True, stop=letter)
    assert stopped.finish_reason == "stop" and letter not in stopped.text
    with pytest.raises(vitrine.BadInput, match="top_p|top-p"):
        model.generate(TEXT, top_p=3)
    with pytest.raises(vitrine.BadInput):
        model.generate(TEXT, max_tokens=-1)
    with pytest.raises(vitrine.BadInput, match="seed"):
        model.generate(TEXT, seed=-1)
    with pytest.raises(vitrine.BadInput, match="top_k.*'many'"):
        model.generate(TEXT, top_k="many")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'temprature'"):
        model.generate(TEXT, temprature=1)  # type: ignore[call-arg]
    ended = model.generate(TEXT, max_tokens=8, greedy=True, stop_ids=[greedy.ids[2]])
    assert (ended.ids, ended.stop_id, ended.finish_reason) == (greedy.ids[:2], greedy.ids[2], "stop")


def test_predictions_are_those_of_the_logits(model: vitrine.Model) -> None:
    logits = model.logits(TEXT)
    assert logits.dtype == np.float32 and logits.shape == (len(model.ids(TEXT)), model.vocab_size)
    predictions = model.predict(TEXT, top=5)
    assert [entry[0].id for entry in predictions] == logits.argmax(axis=1).tolist()
    assert predictions[-1][0].prob == pytest.approx(np.exp(predictions[-1][0].logprob))
    assert sum(t.prob for t in model.predict(TEXT, top=model.vocab_size)[0]) == pytest.approx(1)


def test_the_cache_has_every_site(gpt2: vitrine.Model) -> None:
    logits, cache = gpt2.run_with_cache(IDS)
    assert logits.tobytes() == gpt2.logits(IDS).tobytes()
    assert logits.tobytes() == cache["hook_logits"].tobytes()
    assert cache["blocks.0.attn.hook_pattern"].shape[-2:] == (len(IDS), len(IDS))
    logits, some = gpt2.run_with_cache(IDS, "blocks.*.hook_resid_post")
    assert list(some) == [f"blocks.{i}.hook_resid_post" for i in range(gpt2.n_layers)]
    assert all(some[name].tobytes() == cache[name].tobytes() for name in some)
    assert logits.tobytes() == cache["hook_logits"].tobytes()
    _, graded = gpt2.run_with_cache(IDS, ["hook_embed"], gradients=True)
    assert sorted(graded) == ["hook_embed", "hook_embed_grad"]
    with pytest.raises(vitrine.BadInput, match="no site"):
        gpt2.run_with_cache(IDS, "nope")
    with pytest.raises(vitrine.BadInput):
        gpt2.run_with_cache(IDS, [])


def test_arrays_own_their_memory(gpt2: vitrine.Model) -> None:
    _, cache = gpt2.run_with_cache(IDS)
    before = {name: value.copy() for name, value in cache.items()}
    gpt2.run_with_cache(IDS[::-1])
    for name, value in cache.items():
        assert value.tobytes() == before[name].tobytes()
        value[...] = 0  # writable


def test_a_cache_needs_little_more_memory_than_its_values() -> None:
    code = """
import vitrine
def memory(key):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(key))
model = vitrine.load(threads=1)
ids = [7 * i % model.vocab_size for i in range(model.max_seq_len)]
model.run_with_cache(ids[:8])  # reads the weights
open("/proc/self/clear_refs", "w").write("5")  # the peak is that from now on
before = memory("VmRSS")
logits, cache = model.run_with_cache(ids)
size = sum(value.nbytes for value in cache.values())
print((memory("VmHWM") - before) / size)
"""
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert float(out) < 1.1


def test_a_hook_replaces_a_value(gpt2: vitrine.Model) -> None:
    site = "blocks.0.attn.hook_z"
    expected = gpt2.run(IDS, writes=[f"{site}[:,1]*=2"])
    assert expected.tobytes() != gpt2.run(IDS).tobytes()
    kept = []

    def in_place(value: np.ndarray, where: vitrine.Site) -> None:
        assert where.name == site and where.layer == 0
        kept.append(value.copy())
        value[:, 1] *= 2

    def returned(value: np.ndarray, where: vitrine.Site) -> np.ndarray:
        value = value.copy()
        value[:, 1] *= 2
        return value

    assert gpt2.run(IDS, hooks={site: in_place}).tobytes() == expected.tobytes()
    assert gpt2.run(IDS, hooks={"blocks.0.*hook_z": returned}).tobytes() == expected.tobytes()
    assert gpt2.run(IDS, hooks={site: lambda v, s: returned(v, s).astype(np.float64)}).tobytes() == expected.tobytes()
    assert kept[0].tobytes() == gpt2.run_with_cache(IDS, site)[1][site].tobytes()
    with gpt2.hooks({site: in_place}):
        assert gpt2.logits(IDS).tobytes() == expected.tobytes()
        assert gpt2.predict(IDS, 1)[-1][0].id == expected[-1].argmax()
        assert gpt2.run_with_cache(IDS, "hook_logits")[0].tobytes() == expected.tobytes()
        with_hook = gpt2.grad(IDS)[0]
        generated = gpt2.generate(IDS, max_tokens=1, greedy=True).ids
    assert generated == [int(expected[-1].argmax())]
    assert with_hook != gpt2.grad(IDS)[0]
    assert gpt2.logits(IDS).tobytes() != expected.tobytes()


def test_hooks_are_called_in_order(gpt2: vitrine.Model) -> None:
    seen: list[float] = []

    def add_one(value: np.ndarray, site: vitrine.Site) -> np.ndarray:
        seen.append(float(value.flat[0]))
        return value + 1

    gpt2.run(IDS, hooks={"hook_embed": add_one, "hook_*bed": add_one})
    assert seen[1] == np.float32(seen[0]) + np.float32(1)


def test_each_hook_sees_an_array_of_its_own(gpt2: vitrine.Model) -> None:
    """Nothing that a hook keeps or returns is changed by a later one, nor by the engine."""
    zeros = np.zeros(gpt2.run_with_cache(IDS, "hook_embed")[1]["hook_embed"].shape)
    kept: list[np.ndarray] = []

    def keep(value: np.ndarray, site: vitrine.Site) -> None:
        kept.append(value)

    def replace(value: np.ndarray, site: vitrine.Site) -> np.ndarray:
        return zeros

    def change(value: np.ndarray, site: vitrine.Site) -> None:
        assert value.dtype == np.float32 and not value.any()
        value += 1

    out = gpt2.run(IDS, hooks={"hook_embed": keep, "hook_embe?": replace, "hook_emb*": change, "*k_embed": keep})
    assert out.tobytes() == gpt2.run(IDS, writes=["hook_embed=1"]).tobytes()
    assert not zeros.any() and kept[0].any() and (kept[1] == 1).all()


def test_a_wrong_replacement_is_an_error(gpt2: vitrine.Model) -> None:
    with pytest.raises(vitrine.BadInput, match=r"\[hook_embed\] a replacement must have shape \[7, "):
        gpt2.run(IDS, hooks={"hook_embed": lambda value, site: value[:1]})
    with pytest.raises(TypeError, match="hook_embed"):
        gpt2.run(IDS, hooks={"hook_embed": lambda value, site: "no"})
    with pytest.raises(vitrine.BadInput, match="no site"):
        gpt2.run(IDS, hooks={"nope": lambda value, site: None})
    with pytest.raises(vitrine.BadInput, match="NaN|infinite"):
        gpt2.run(IDS, hooks={"hook_embed": lambda value, site: value * np.float32("nan")})


def test_the_gradient_is_that_of_the_loss(gpt2: vitrine.Model) -> None:
    loss, gradients = gpt2.grad(IDS)
    state = gpt2.state_dict()
    name = next(name for name in gradients if name.endswith("wpe.weight"))
    assert gradients[name].shape == state[name].shape
    tensors = {key: np.array(value) for key, value in state.items()}
    step = np.zeros_like(tensors[name])
    step[2, 3] = 1e-2
    losses = []
    for sign in (1, -1):
        moved = vitrine.from_state_dict(gpt2.config, {**tensors, name: tensors[name] + sign * step})
        losses.append(moved.grad(IDS)[0])
    assert (losses[0] - losses[1]) / 2e-2 == pytest.approx(gradients[name][2, 3], rel=2e-2)
    with pytest.raises(vitrine.BadInput):
        gpt2.grad(IDS[:1])


def test_hooks_and_gradients(gpt2: vitrine.Model) -> None:
    site = "blocks.0.hook_resid_post"

    def silence_row(value: np.ndarray, where: vitrine.Site) -> None:
        value[2] = 0

    _, cache = gpt2.run_with_cache(IDS, ["hook_embed", site], gradients=True, hooks={site: silence_row})
    _, written = gpt2.run_with_cache(IDS, ["hook_embed", site], gradients=True, writes=[f"{site}[2]=0"])
    for name, value in written.items():
        assert cache[name].tobytes() == value.tobytes()
    assert list(cache) == list(written)


def test_errors_are_of_their_classes() -> None:
    assert issubclass(vitrine.BadInput, ValueError) and issubclass(vitrine.BadInput, vitrine.Error)
    assert issubclass(vitrine.OutOfCapacity, MemoryError) and issubclass(vitrine.Unsupported, NotImplementedError)
    with pytest.raises(vitrine.BadInput, match=r"\[/no/such\] no such file or folder"):
        vitrine.load("/no/such")
    with pytest.raises(vitrine.BadInput, match="tokenizer"):
        vitrine.load(GOLDENS / "gpt2").generate("a text")
    with pytest.raises(vitrine.BadInput, match="kv"):
        vitrine.load(kv="f12")
    with pytest.raises(vitrine.Unsupported, match="gradients"):
        vitrine.load(kv="int8").grad(IDS)


@pytest.mark.parametrize("name", ["gpt2", "llama_mha", "gemma2"])
def test_a_state_dict_is_a_model(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    if not (GOLDENS / name).exists():
        pytest.skip("no such golden")
    model = vitrine.load(GOLDENS / name)
    state = model.state_dict()
    assert model.logits(IDS).tobytes() == vitrine.from_state_dict(model.config, state).logits(IDS).tobytes()
    folder = tmp_path_factory.mktemp("saved") / name
    model.save(folder)
    saved = vitrine.load(folder)
    assert saved.logits(IDS).tobytes() == model.logits(IDS).tobytes()
    assert {k: np.asarray(v).tobytes() for k, v in saved.state_dict().items()} == {
        k: np.asarray(v).tobytes() for k, v in state.items()
    }


def test_a_state_dict_shares_its_memory(gpt2: vitrine.Model) -> None:
    state = gpt2.state_dict()
    name = next(name for name in state if name.endswith("wpe.weight"))
    assert not state[name].flags.writeable
    tensors = {key: np.array(value) for key, value in state.items()}
    model = vitrine.from_state_dict(gpt2.config, tensors)
    before = model.logits(IDS).tobytes()
    tensors[name][...] += 1
    assert model.logits(IDS).tobytes() != before
    assert np.shares_memory(model.state_dict()[name], tensors[name])
    del tensors[name]
    with pytest.raises(vitrine.BadCheckpoint, match="missing"):
        vitrine.from_state_dict(gpt2.config, tensors)


def test_unknown_keys_and_tensors_can_be_allowed(gpt2: vitrine.Model, tmp_path: Path) -> None:
    gpt2.save(tmp_path / "saved")
    config = {**gpt2.config, "new_key": 1}
    tensors = {**gpt2.state_dict(), "extra.0.weight": np.zeros(3, np.float32), "extra.1": np.zeros(1, np.float32)}
    (tmp_path / "saved" / "config.json").write_text(json.dumps(config))
    with pytest.raises(vitrine.Error, match="new_key"):
        vitrine.load(tmp_path / "saved")
    assert vitrine.load(tmp_path / "saved", allowed_config_keys=["new_key"]).logits(IDS).tobytes() == gpt2.logits(IDS).tobytes()
    with pytest.raises(vitrine.BadCheckpoint, match="extra"):
        vitrine.from_state_dict(config, tensors, allowed_config_keys=["new_key"])
    with pytest.raises(vitrine.BadCheckpoint, match="extra.1"):
        vitrine.from_state_dict(config, tensors, allowed_config_keys=["new_key"], allowed_tensors=["extra.0.weight"])
    model = vitrine.from_state_dict(config, tensors, allowed_config_keys=["new_key"], allowed_tensors=["extra.*"])
    assert model.logits(IDS).tobytes() == gpt2.logits(IDS).tobytes()


def test_unknown_tensors_of_a_file_can_be_allowed(gpt2: vitrine.Model, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    gpt2.save(folder)
    file = next(folder.glob("*.safetensors"))
    size = int.from_bytes(file.read_bytes()[:8], "little")
    header, data = json.loads(file.read_bytes()[8 : 8 + size]), file.read_bytes()[8 + size :]
    header["extra.weight"] = {"dtype": "F32", "shape": [1], "data_offsets": [len(data), len(data) + 4]}
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data + bytes(4))
    with pytest.raises(vitrine.BadCheckpoint, match="extra.weight"):
        vitrine.load(folder)
    for allowed in ("extra.weight", "extra*"):
        model = vitrine.load(folder, allowed_tensors=[allowed])
        assert model.logits(IDS).tobytes() == gpt2.logits(IDS).tobytes()
        assert pickle.loads(pickle.dumps(model)).logits(IDS).tobytes() == gpt2.logits(IDS).tobytes()


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    model = vitrine.load()
    tensors = {k: np.asarray(v).astype(ml_dtypes.bfloat16) for k, v in model.state_dict().items()}
    halved = vitrine.from_state_dict(model.config, tensors)
    for name, tensor in halved.state_dict().items():
        assert isinstance(tensor, vitrine.BFloat16)
        assert np.asarray(tensor).dtype == ml_dtypes.bfloat16
        assert np.shares_memory(tensor.bits, tensors[name].view(np.uint16))
    again = vitrine.from_state_dict(model.config, halved.state_dict())
    assert halved.logits(IDS).tobytes() == again.logits(IDS).tobytes()


def test_pytorch_shares_memory(gpt2: vitrine.Model) -> None:
    torch = pytest.importorskip("torch")
    logits = gpt2.logits(IDS)
    tensor = torch.from_dlpack(logits)
    assert tensor.data_ptr() == logits.ctypes.data
    tensors = {k: torch.tensor(np.array(v)).to(torch.bfloat16).requires_grad_() for k, v in gpt2.state_dict().items()}
    model = vitrine.from_state_dict(gpt2.config, tensors)
    for name, value in model.state_dict().items():
        assert torch.from_dlpack(value).data_ptr() == tensors[name].data_ptr()
        assert torch.from_dlpack(value).dtype == torch.bfloat16
    assert gpt2.run(IDS, hooks={"hook_embed": lambda v, s: torch.from_numpy(v) * 2}).tobytes() == gpt2.run(
        IDS, writes=["hook_embed*=2"]
    ).tobytes()
