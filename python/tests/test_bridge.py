"""vitrine.lens.bridge computes what TransformerLens 4.3's boot_transformers() computes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import GOLDENS, SOURCE, build_folder

torch = pytest.importorskip("torch")
pytest.importorskip("transformer_lens.model_bridge.driver_protocol")
transformers = pytest.importorskip("transformers")

from transformer_lens import patching  # noqa: E402
from transformer_lens.model_bridge import TransformerBridge  # noqa: E402
from transformer_lens.model_bridge.driver_protocol import Driver, validate_driver  # noqa: E402
from transformer_lens.tools.analysis import interchange  # noqa: E402
from transformer_lens.tools.analysis.attribution_patching import EdgeAttributionConfig, attribution_patch  # noqa: E402
from transformer_lens.tools.analysis.logit_lens import logit_lens  # noqa: E402

import vitrine  # noqa: E402
from vitrine.lens.bridge import boot_vitrine  # noqa: E402

FLAGS = ("use_attn_result", "use_split_qkv_input", "use_hook_mlp_in")


@pytest.fixture(scope="module", params=["gpt2", "gemma2"])
def pair(request: pytest.FixtureRequest) -> Any:
    """Their bridge, and ours."""
    folder = str(GOLDENS / request.param)
    hf = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    theirs = TransformerBridge.boot_transformers(folder, device="cpu", hf_model=hf)
    theirs.eval()
    return theirs, boot_vitrine(folder, threads=1)


@pytest.fixture(autouse=True)
def without_flags(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "pair" in request.fixturenames:
        for model in request.getfixturevalue("pair"):
            model.reset_hooks(including_permanent=True)
            for flag in FLAGS:
                getattr(model, f"set_{flag}")(False)


def same(pair: Any, function: Any) -> None:
    """The result of a function of each bridge is the same within 2e-5."""
    expected, found = (function(model).detach() for model in pair)
    assert found.shape == expected.shape
    scale = max(1.0, float(expected.abs().max()))
    assert float((found - expected).abs().max()) <= 2e-5 * scale


def clean(model: Any) -> Any:
    return (torch.arange(8)[None] * 7 + 3) % model.cfg.d_vocab


def corrupt(model: Any) -> Any:
    tokens = clean(model)
    tokens[0, 3] = 1
    return tokens


def metric(logits: Any) -> Any:
    return logits[0, -1, 4] - logits[0, -1, 9]


@pytest.mark.parametrize("with_flags", [False, True])
def test_values_and_gradients(pair: Any, with_flags: bool) -> None:
    caches = []
    for model in pair:
        for flag in FLAGS:
            getattr(model, f"set_{flag}")(with_flags)
        caches.append(model.run_with_cache(clean(model), return_type="loss", incl_bwd=True)[1].cache_dict)
    theirs, ours = caches
    shared = [name for name in theirs if name in ours and "attn_scores" not in name]
    assert len(shared) > 60 * pair[1].cfg.n_layers
    for name in shared:
        assert theirs[name].shape == ours[name].shape, name
        scale = max(1.0, float(theirs[name].abs().max()))
        assert float((theirs[name] - ours[name]).abs().max()) <= 2e-5 * scale, name
    scores = [torch.tril(cache["blocks.0.attn.hook_attn_scores"].nan_to_num(neginf=0)) for cache in caches]
    assert float((scores[0] - scores[1]).abs().max()) <= 2e-5


def test_hooks_that_write(pair: Any) -> None:
    theirs, ours = pair
    _, cache = theirs.run_with_cache(clean(theirs))
    names = [name for name in ours.hook_dict if isinstance(cache.cache_dict.get(name), torch.Tensor)]
    assert len(names) > 30
    for name in names:
        noise = torch.randn(cache[name].shape, generator=torch.Generator().manual_seed(1))
        noise = noise.tril() if noise.shape[-1] == noise.shape[-2] == 8 else noise

        def write(value: Any, hook: Any, noise: Any = noise) -> Any:
            return value + 0.3 * noise

        with torch.no_grad():
            same(pair, lambda model, name=name, write=write: model.run_with_hooks(clean(model), fwd_hooks=[(name, write)]))


def test_backward_hooks_and_derivatives_of_hooks(pair: Any) -> None:
    def turned(model: Any) -> Any:
        seen = []
        model.add_hook("blocks.1.attn.hook_z", lambda g, hook: seen.append(g.clone()), "bwd")
        model.add_hook("blocks.1.hook_mlp_out", lambda g, hook: (g * 2,), "bwd")
        metric(model(clean(model))).backward()
        model.reset_hooks()
        return seen[0]

    def learned(model: Any) -> Any:
        vector = torch.ones(model.cfg.d_model, requires_grad=True)
        logits = model.run_with_hooks(clean(model), fwd_hooks=[("blocks.0.hook_mlp_out", lambda value, hook: value * vector)])
        metric(logits).backward()
        return vector.grad

    def asked(model: Any) -> Any:
        kept: dict[str, Any] = {}
        names = ["blocks.0.hook_mlp_out", "blocks.1.hook_resid_pre"]
        hooks = [(name, lambda value, hook, name=name: kept.update({name: value})) for name in names]
        with model.hooks(fwd_hooks=hooks):
            logits = model(clean(model))
        return torch.stack(torch.autograd.grad(metric(logits), [kept[name] for name in names]))

    for function in (turned, learned, asked):
        same(pair, function)


@pytest.mark.parametrize("name", ["resid_pre", "resid_mid", "attn_out", "mlp_out", "attn_head_out_all_pos",
                                  "attn_head_v_by_pos", "attn_head_pattern_all_pos", "block_every"])
def test_activation_patching(pair: Any, name: str) -> None:
    def patch(model: Any) -> Any:
        _, cache = model.run_with_cache(clean(model))
        return getattr(patching, f"get_act_patch_{name}")(model, corrupt(model), cache, metric)

    with torch.no_grad():
        same(pair, patch)


def test_attribution_patching(pair: Any) -> None:
    def attribute(model: Any, granularity: str) -> Any:
        result = attribution_patch(model, clean(model), corrupt(model), metric, EdgeAttributionConfig(granularity=granularity))
        scores = result.node_scores if granularity == "node" else result.edge_scores
        return torch.tensor([float(score) for score in scores.values()])

    same(pair, lambda model: attribute(model, "node"))
    if pair[1].cfg.n_key_value_heads is None:
        same(pair, lambda model: attribute(model, "edge"))


def test_logit_lens(pair: Any) -> None:
    same(pair, lambda model: logit_lens(model, clean(model), positions=None).values)
    same(pair, lambda model: logit_lens(model, clean(model), incl_mid=True, return_type="log_probs").values)
    same(pair, lambda model: logit_lens(model, clean(model), apply_ln=False, targets=3).values)


def test_interchange(pair: Any) -> None:
    site = "blocks.1.hook_resid_pre"

    def change(model: Any) -> Any:
        places = torch.full((2,), 3)
        rows, others = clean(model).repeat(2, 1), corrupt(model).repeat(2, 1)
        source = interchange.collect_activations(model, site, others, model, positions=places)
        share = torch.full((model.cfg.d_model,), 0.5, requires_grad=True)
        logits = interchange.run_with_intervention(
            model, site, lambda base, source: base + (source - base) * share, rows, source, model, positions=places
        )
        metric(logits).backward()
        assert share.grad is not None and share.grad.abs().max() > 0
        return torch.cat([logits.flatten(), share.grad])

    same(pair, change)
    result = interchange.fit_das(
        pair[1], site, clean(pair[1]).repeat(4, 1), corrupt(pair[1]).repeat(4, 1), torch.zeros(4, dtype=torch.long),
        lambda tokens: pair[1](tokens)[:, -1, :3], rank=2, base_positions=torch.full((4,), 3),
        source_positions=torch.full((4,), 3), epochs=3,
    )
    assert result.losses[-1] < result.losses[0]


def test_activation_cache(pair: Any) -> None:
    functions = [
        lambda cache: cache.accumulated_resid(apply_ln=True), lambda cache: cache.decompose_resid(apply_ln=True),
        lambda cache: cache.stack_head_results(apply_ln=True), lambda cache: cache.stack_neuron_results(1),
        lambda cache: cache.get_full_resid_decomposition(expand_neurons=False),
        lambda cache: cache.logit_attrs(cache.decompose_resid(), 4),
    ]
    for function in functions:
        same(pair, lambda model, function=function: function(model.run_with_cache(clean(model))[1]))


def test_parts_of_a_forward_and_weights(pair: Any) -> None:
    same(pair, lambda model: model(clean(model), stop_at_layer=1))
    stream = torch.linspace(-1, 1, 4 * pair[1].cfg.d_model).reshape(1, 4, -1)
    same(pair, lambda model: model(stream, start_at_layer=1))
    same(pair, lambda model: model(clean(model), return_type="loss", loss_per_token=True))
    for name in ("W_E", "W_U", "W_Q", "W_K", "W_V", "W_O", "W_in", "W_out", "b_U"):
        same(pair, lambda model, name=name: getattr(model, name))
    same(pair, lambda model: model.blocks[1].attn.W_K)
    ours = pair[1]
    assert ours.blocks[0].hook_resid_mid is ours.hook_dict["blocks.0.ln2.hook_in"]
    assert ours.hook_embed is ours.hook_dict["embed.hook_out"]


def test_the_driver(pair: Any) -> None:
    bridge = pair[1]
    driver = bridge._driver
    validate_driver(driver, after_bridge_construction=True)
    assert isinstance(driver, Driver)
    assert all(driver.supports(own) for own in ("gradients", "parameters", "weight_access", "intervention_callbacks"))
    tokens = clean(bridge)
    site, width = "blocks.0.hook_mlp_out", bridge.cfg.d_model
    vector = torch.linspace(-1, 1, width)

    def at(index: Any, function: Any) -> Any:
        def hook(value: Any, hook: Any = None) -> Any:
            value = value.clone()
            value[:, index] = function(value[:, index])
            return value

        return hook

    cases = [
        ({"op": "suppress"}, at(slice(None), torch.zeros_like)),
        ({"op": "scale", "factor": 0.5, "pos": 2}, at(2, lambda v: v * 0.5)),
        ({"op": "add", "value": vector, "pos": [1, 4]}, at([1, 4], lambda v: v + vector)),
        ({"op": "set", "value": 0.25}, at(slice(None), lambda v: torch.full_like(v, 0.25))),
        (lambda value: value * 2, at(slice(None), lambda v: v * 2)),
    ]
    with torch.no_grad():
        for change, hook in cases:
            result = driver.forward(tokens, capture=(site, "blocks.0.mlp.out.hook_in"), intervene={site: change})
            expected, cache = bridge.run_with_hooks(tokens, fwd_hooks=[(site, hook)]), result.captured
            assert torch.equal(result.logits, expected) and cache[site].shape == (1, 8, width)
        heads = driver.forward(tokens, intervene={"blocks.0.attn.hook_z": {"op": "set", "value": torch.zeros(bridge.cfg.n_heads * bridge.cfg.d_head)}})
        none = driver.forward(tokens, intervene={"blocks.0.attn.hook_z": {"op": "suppress"}})
        assert torch.equal(heads.logits, none.logits)
    result = driver.forward(tokens, capture=("hook_embed",))
    metric(result.logits).backward(retain_graph=True)
    assert torch.autograd.grad(metric(result.logits), result.captured["hook_embed"])[0].abs().max() > 0
    for wrong, match in (
        ({"op": "double"}, "suppress, scale, add, set"), ({"op": "scale"}, "factor"), ({"op": "suppress", "position": 1}, "pos"),
        ({"op": "add", "value": [1.0, 2.0]}, "numbers"), ({"op": "suppress", "pos": 99}, "positions below 8"),
    ):
        with pytest.raises(vitrine.BadInput, match=match):
            driver.forward(tokens, intervene={site: wrong})
    with pytest.raises(KeyError):
        driver.forward(tokens, capture=("blocks.0.hook_nothing",))
    with pytest.raises(NotImplementedError, match="max_new_tokens"):
        driver.forward(tokens, max_new_tokens=2)


def test_texts_of_the_default_model() -> None:
    bridge = boot_vitrine(threads=2)
    logits, cache = bridge.run_with_cache("Once upon a time")
    assert cache["resid_post", 3].shape == (1, 5, bridge.cfg.d_model) and cache["pattern", 0].shape[-1] == 5
    with torch.no_grad():
        batch = bridge(["Once upon", "Once upon a time"], padding_side="left")
        assert torch.allclose(batch[1], logits[0]) and torch.allclose(batch[0, -1], bridge("Once upon")[0, -1])
    assert bridge.to_string(bridge.to_tokens("Once upon a time")[0, 1:]) == "Once upon a time"
    assert bridge.generate("Once upon a time", max_new_tokens=3, do_sample=False).startswith("Once upon a time")
    with pytest.raises(NotImplementedError, match="compatibility"):
        bridge.enable_compatibility_mode()


@pytest.mark.parametrize("kind", ["q8_0", "q4_k_m"])
def test_a_gguf_is_its_dequantized_weights(tmp_path: Any, kind: str) -> None:
    """Hooks, gradients and tools of a quantized file."""
    program = build_folder() / "vitrine"
    if not program.exists():
        pytest.skip("the program is not built")
    file, plain = tmp_path / f"{kind}.gguf", tmp_path / "f32.gguf"
    for source, name, to in ((vitrine.DEFAULT_MODEL, kind, file), (file, "f32", plain)):
        subprocess.run([program, "quantize", source, to, "--type", name], check=True, capture_output=True)
    bridges = boot_vitrine(plain, threads=1), boot_vitrine(file, threads=2)
    tokens = bridges[1].to_tokens("Once upon a time there was")
    other = tokens.clone()
    other[0, 2] = 5

    def written(model: Any) -> Any:
        return model.run_with_hooks(tokens, fwd_hooks=[("blocks.2.hook_mlp_out", lambda value, hook: value * 0.5)])

    def gradients(model: Any) -> Any:
        _, cache = model.run_with_cache(tokens, return_type="loss", incl_bwd=True)
        return torch.cat([value.flatten() for name, value in cache.items() if name.endswith("resid_pre_grad")])

    def attributed(model: Any) -> Any:
        return torch.tensor([float(score) for score in attribution_patch(model, tokens, other, metric).node_scores.values()])

    for function in (
        lambda model: model(tokens), written, gradients, attributed,
        lambda model: logit_lens(model, tokens, positions=None).values, lambda model: model.W_Q,
    ):
        same(bridges, function)
    assert (written(bridges[1]) - bridges[1](tokens)).abs().max() > 1e-2
    assert torch.allclose(logit_lens(bridges[1], tokens, positions=None).values[-1], bridges[1](tokens), atol=1e-4)


def test_the_examples_of_the_page() -> None:
    blocks = re.findall(r"```python notest\n(.*?)```", (SOURCE / "docs" / "lens.md").read_text(), re.S)
    names: dict[str, Any] = {}
    for block in (own for own in blocks if "bridge" in own):
        exec(compile(block, "docs/lens.md", "exec"), names)
    assert names["result"].logits.shape[1] == 5
