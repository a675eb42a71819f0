"""vitrine.lens computes what TransformerLens 3.9 computes: tests/goldens/lens, by tools/goldens lens."""

from __future__ import annotations

import gc
import json
import re
import shutil
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SOURCE

torch = pytest.importorskip("torch")

import vitrine.lens as transformer_lens  # noqa: E402
import lens_more_results  # noqa: E402, F401
from lens_models import MODELS, tokens_of  # noqa: E402
from lens_results import RESULTS, metric  # noqa: E402


@pytest.fixture(scope="module", params=MODELS)
def case(request: pytest.FixtureRequest) -> Any:
    folder = SOURCE / "tests" / "goldens" / request.param
    model = transformer_lens.HookedTransformer.from_pretrained_no_processing(folder, threads=1)
    return model, np.load(SOURCE / "tests" / "goldens" / "lens" / f"{request.param}.npz")


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_that_of_transformer_lens(case: Any, name: str) -> None:
    model, expected = case
    found = RESULTS[name](transformer_lens, model, tokens_of(model.cfg.d_vocab)).detach().numpy()
    model.reset_hooks(including_permanent=True)
    assert found.shape == expected[name].shape
    scale = max(1.0, float(np.abs(expected[name]).max()))
    assert float(np.abs(found - expected[name]).max()) <= 2e-5 * scale


def test_the_golden_has_all_results(case: Any) -> None:
    assert set(case[1].files) == set(RESULTS)
    assert len(RESULTS) >= 55


@pytest.fixture(scope="module")
def story() -> Any:
    """The default model."""
    return transformer_lens.HookedTransformer.from_pretrained_no_processing(threads=2)


def test_texts_and_tokens(story: Any) -> None:
    tokens = story.to_tokens("Once upon a time")
    bos = story.model.config["bos_token_id"]
    assert tokens[0, 0] == bos
    assert (story.to_tokens("Once upon a time", prepend_bos=False)[0] == tokens[0, 1:]).all()
    words = story.to_str_tokens("Once upon a time")
    assert words[0] == story.tokenizer.convert_ids_to_tokens(bos) and "".join(words[1:]) == "Once upon a time"
    assert story.to_string(tokens[0, 1:]) == "Once upon a time"
    assert story.to_string(tokens) == [words[0] + "Once upon a time"]
    token = story.to_single_token(" time")
    assert story.to_single_str_token(token) == " time"
    assert story.get_token_position(" time", "Once upon a time") == tokens.shape[1] - 1
    with pytest.raises(AssertionError):
        story.to_single_token("Once upon a time")
    batch = story.to_tokens(["Once", "Once upon a time"])
    assert batch.shape == (2, tokens.shape[1]) and batch[0, -1] == story.model.config["pad_token_id"]


def test_padding_on_the_right_changes_no_text(story: Any) -> None:
    with torch.no_grad():
        alone, batch = story("Once upon"), story(["Once upon", "Once upon a time there was"])
    assert torch.equal(batch[0, : alone.shape[1]], alone[0])


def test_padding_on_the_left_changes_no_text(story: Any) -> None:
    texts = ["Once upon", "Once upon a time there was"]
    with torch.no_grad():
        alone, batch = story(texts[0]), story(texts, padding_side="left")
        n = alone.shape[1]
        assert torch.equal(batch[0, -n:], alone[0]) and torch.equal(batch[1], story(texts[1])[0])
        tokens = story.to_tokens(texts, padding_side="left")
        assert (tokens[0, :-n] == story.padding_ids().pad_token_id).all()
        story.tokenizer.padding_side = "left"
        try:
            assert torch.equal(story(tokens), batch) and torch.equal(story(texts), batch)
        finally:
            story.tokenizer.padding_side = "right"
    with pytest.raises(NotImplementedError, match="attention_mask.*between"):
        story("Once upon a time", attention_mask=torch.tensor([[1, 0, 1, 1, 1]]))
    with pytest.raises(ValueError, match="attention_mask.*shape"):
        story("Once upon a time", attention_mask=torch.ones(1, 2))


def test_a_past_is_tokens(story: Any) -> None:
    past = transformer_lens.TransformerLensKeyValueCache.init_cache(story.cfg, story.cfg.device, 1)
    tokens = story.to_tokens("Once upon a time there was a cat")
    with torch.no_grad():
        whole = story(tokens)
        found = [story(tokens[:, i : i + 3], past_kv_cache=past) for i in range(0, tokens.shape[1], 3)]
    assert torch.equal(torch.cat(found, dim=1), whole)
    with pytest.raises(NotImplementedError, match="past_kv_cache"):
        past[0]
    with pytest.raises(ValueError, match="batch of 1"):
        story(tokens.repeat(2, 1), past_kv_cache=past)


def test_a_changed_weight_is_an_error() -> None:
    model = transformer_lens.HookedTransformer.from_pretrained_no_processing(SOURCE / "tests" / "goldens" / "gpt2")
    tokens = torch.arange(4)[None]
    with pytest.raises(NotImplementedError, match=r"blocks.0.attn.W_Q\] expected no assignment"):
        model.blocks[0].attn.W_Q = torch.zeros(1)
    model(tokens)
    model.blocks[1].mlp.W_out[0] = 0
    with pytest.raises(NotImplementedError, match=r"blocks.1.mlp.W_out\] expected weights that are not written to"):
        model(tokens)


def test_what_is_missing_says_so(story: Any) -> None:
    with pytest.raises(NotImplementedError, match="get_dataset"):
        transformer_lens.utils.get_dataset("pile")
    with pytest.raises(AttributeError, match="lens.md"):
        story.load_sample_training_dataset()
    with pytest.raises(NotImplementedError, match="the same for queries"):
        story.blocks[0].attn(torch.zeros(1, 2, 256), torch.ones(1, 2, 256), torch.zeros(1, 2, 256))
    from vitrine.lens.hook_points import HookedRootModule

    assert HookedRootModule is transformer_lens.HookedRootModule


def test_heads_of_a_text(story: Any) -> None:
    text = "Once upon a time there was a cat. Once upon a time there was a"
    detect = transformer_lens.head_detector.detect_head
    scores = detect(story, text, "previous_token_head")
    assert scores.shape == (story.cfg.n_layers, story.cfg.n_heads) and 0 <= scores.min() and scores.max() <= 1
    some = detect(story, [text, text], "induction_head", heads=[(0, 1)], exclude_bos=True)
    assert some[0, 1] == detect(story, text, "induction_head", exclude_bos=True)[0, 1] and some[1, 0] == -1
    with pytest.raises(AssertionError, match="one of head names"):
        detect(story, text, "other")


def test_generation_is_that_of_the_engine(story: Any) -> None:
    text = story.generate("Once upon a time", max_new_tokens=6, do_sample=False)
    ids = story.to_tokens("Once upon a time")[0].tolist()
    assert text == "Once upon a time" + story.model.generate(ids, max_tokens=6, greedy=True).text
    torch.manual_seed(1)
    sampled = [story.generate("Once", max_new_tokens=5, top_k=5) for _ in range(2)]
    torch.manual_seed(1)
    assert [story.generate("Once", max_new_tokens=5, top_k=5) for _ in range(2)] == sampled


def test_the_second_pass_has_the_bits_of_the_first(story: Any) -> None:
    values: list[Any] = []
    site = "blocks.3.hook_resid_mid"

    def tap(name: str, array: Any) -> None:
        values.append(array)

    ids = story.to_tokens("Once upon a time there was a cat").numpy().astype(np.int32)
    logits = story._engine.run(ids, tap, [site], True, None, None, [], None, None, None)
    gradient = np.zeros_like(logits)
    gradient[-1, 5] = 1
    story._engine.run(ids, tap, [site], False, gradient, None, [], None, None, None)
    assert np.array_equal(values[0], values[1])


def test_a_gradient_that_PyTorch_continues(story: Any) -> None:
    """Any function of the logits has a backward; in a no_grad block there is no graph."""
    logits = story("Once upon a time")
    assert logits.requires_grad
    with torch.no_grad():
        assert not story("Once upon a time").requires_grad
    _, cache = story.run_with_cache("Once upon a time", return_type="loss", incl_bwd=True)
    assert cache["blocks.0.hook_resid_pre_grad"].shape == cache["blocks.0.hook_resid_pre"].shape
    expected = story.model.run_with_cache(
        story.to_tokens("Once upon a time")[0].tolist(), "blocks.0.hook_resid_pre", gradients=True
    )[1]["blocks.0.hook_resid_pre_grad"]
    assert np.allclose(cache["blocks.0.hook_resid_pre_grad"][0], expected, atol=1e-6)


def test_a_loss_of_a_kept_value_needs_no_result(story: Any) -> None:
    found = []
    for keeps_result in (True, False):
        kept: dict[str, Any] = {}
        gradients: dict[str, Any] = {}
        story.add_hook("blocks.4.mlp.hook_post", lambda value, hook, kept=kept: kept.update(value=value))
        story.add_hook("blocks.1.hook_resid_pre", lambda g, hook, to=gradients: to.update(g=g.detach()), "bwd")
        logits = story("Once upon a time")
        if not keeps_result:
            del logits
        kept["value"][0, -1, 17].backward()
        story.reset_hooks()
        found.append(gradients["g"])
    assert torch.equal(*found) and found[0].abs().max() > 0


def test_passes_are_freed(story: Any) -> None:
    """A model keeps the last pass with hooks that may have kept values; the others go with their results."""
    kept: dict[str, Any] = {}
    passes = []
    for _ in range(3):
        story.add_hook("blocks.2.hook_resid_mid", lambda value, hook: kept.update(value=value))
        story("Once upon a time")
        passes.append(weakref.ref(story._last_edited))
        story.reset_hooks()
    gc.collect()
    assert [own() is None for own in passes] == [True, True, False]


def test_errors_of_hooks(story: Any) -> None:
    def wrong(value: Any, hook: Any) -> Any:
        return value[:, :1]

    def fails(value: Any, hook: Any) -> Any:
        raise KeyError("mine")

    site = "blocks.0.hook_resid_pre"
    with pytest.raises(ValueError, match="blocks.0.hook_resid_pre.*shape"):
        story.run_with_hooks("Once", fwd_hooks=[(site, wrong)])
    with pytest.raises(KeyError, match="mine"):
        story.run_with_hooks("Once", fwd_hooks=[(site, fails)])
    with pytest.raises(KeyError):
        story.add_hook("blocks.0.hook_nothing", fails)
    with pytest.raises(AssertionError, match="use_attn_result"):
        story.add_hook("blocks.0.attn.hook_result", fails)
    assert not story.list_hooks()


def test_folding_flags_warn() -> None:
    with pytest.warns(UserWarning, match="fold_ln.*changes nothing"):
        transformer_lens.HookedTransformer.from_pretrained(SOURCE / "tests" / "goldens" / "gpt2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        off = dict.fromkeys(("fold_ln", "center_writing_weights", "center_unembed", "fold_value_biases"), False)
        transformer_lens.HookedTransformer.from_pretrained(SOURCE / "tests" / "goldens" / "gpt2", **off)


def test_a_name_in_the_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "models--someone--tiny-gpt2"
    (folder / "refs").mkdir(parents=True)
    (folder / "snapshots").mkdir()
    (folder / "refs" / "main").write_text("abc")
    (folder / "snapshots" / "abc").symlink_to(SOURCE / "tests" / "goldens" / "gpt2")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    for name in ("someone/tiny-gpt2", "tiny-gpt2"):
        assert transformer_lens.HookedTransformer.from_pretrained_no_processing(name).cfg.n_layers == 2
    with pytest.raises(ValueError, match="downloads nothing"):
        transformer_lens.HookedTransformer.from_pretrained_no_processing("gpt2-xl")


def test_the_example_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (SOURCE / "docs" / "lens.md").read_text(), re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/lens.md", "exec"), {})
    assert "blocks.0.hook_resid_pre torch.Size([1, 5, 256])" in capsys.readouterr().out


def test_values_share_memory_with_the_engine_s_arrays(story: Any) -> None:
    """One copy of each value: a cache of everything holds its bytes, and not much more."""
    with torch.no_grad():
        _, cache = story.run_with_cache("Once upon a time")
    value = cache["resid_pre", 2]
    assert value.is_contiguous() and not value.requires_grad and value.untyped_storage().nbytes() == value.nbytes
    assert metric(story("Once")).shape == ()


def test_eps_of_norms_after_sublayers(tmp_path: Path) -> None:
    folder = tmp_path / "olmo2"
    shutil.copytree(SOURCE / "tests/goldens/olmo2", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 3e-4}))
    cfg = transformer_lens.HookedTransformer.from_pretrained_no_processing(str(folder)).cfg
    assert (cfg.eps, cfg.normalization_type) == (3e-4, "RMS")
