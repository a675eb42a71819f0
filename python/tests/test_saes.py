"""Dictionaries of SAELens at the sites of vitrine.lens, against SAELens's HookedSAETransformer."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import GOLDENS

torch = pytest.importorskip("torch")
sae_lens = pytest.importorskip("sae_lens")
transformers = pytest.importorskip("transformers")
weights = pytest.importorskip("transformer_lens.pretrained.weight_conversions")

import datasets  # noqa: E402
from transformer_lens import HookedTransformerConfig  # noqa: E402

import vitrine  # noqa: E402
import vitrine.lens as lens  # noqa: E402


@pytest.fixture(scope="module")
def pair() -> Any:
    """Their model, and ours."""
    folder = GOLDENS / "gpt2"
    hf = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    c = hf.config
    cfg = HookedTransformerConfig(
        n_layers=c.n_layer, d_model=c.n_embd, n_ctx=c.n_positions, n_heads=c.n_head, d_head=c.n_embd // c.n_head,
        d_vocab=c.vocab_size, d_mlp=4 * c.n_embd, act_fn=c.activation_function, eps=c.layer_norm_epsilon,
        normalization_type="LN", device="cpu", model_name="gpt2", original_architecture="GPT2LMHeadModel",
    )
    theirs = sae_lens.HookedSAETransformer(cfg)
    off = dict.fromkeys(("fold_ln", "center_writing_weights", "center_unembed", "fold_value_biases"), False)
    theirs.load_and_process_state_dict(weights.convert_gpt2_weights(hf, cfg), **off)
    theirs.eval()
    return theirs, lens.HookedTransformer.from_pretrained_no_processing(folder, threads=1)


def dictionary(kind: str, site: str, seed: int = 0, site_out: str | None = None, width: int = 24) -> Any:
    config = {"d_in": width, "d_sae": 40, "dtype": "float32", "device": "cpu"}
    config |= {"reshape_activations": "hook_z"} if site.endswith("hook_z") else {}
    metadata = {"hook_name": site} | ({} if site_out is None else {"hook_name_out": site_out})
    classes = {
        "standard": (sae_lens.StandardSAE, sae_lens.StandardSAEConfig, {}),
        "jumprelu": (sae_lens.JumpReLUSAE, sae_lens.JumpReLUSAEConfig, {}),
        "topk": (sae_lens.TopKSAE, sae_lens.TopKSAEConfig, {"k": 6}),
        "transcoder": (sae_lens.Transcoder, sae_lens.TranscoderConfig, {"d_out": 24, "apply_b_dec_to_input": False}),
    }
    cls, config_cls, more = classes[kind]
    from sae_lens.saes.sae import SAEMetadata

    sae = cls(config_cls(**config, **more, metadata=SAEMetadata(**metadata)))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in sae.named_parameters():
            value.copy_(torch.randn(value.shape, generator=generator) * 0.3)
            if name == "threshold":
                value.abs_()
    return sae


def cases() -> list[tuple[str, list[Any]]]:
    return [
        ("standard", [dictionary("standard", "blocks.0.hook_resid_post")]),
        ("jumprelu", [dictionary("jumprelu", "blocks.1.hook_mlp_out")]),
        ("topk", [dictionary("topk", "blocks.0.hook_resid_pre")]),
        ("heads", [dictionary("standard", "blocks.1.attn.hook_z")]),
        ("transcoder", [dictionary("transcoder", "blocks.0.ln2.hook_normalized", site_out="blocks.0.hook_mlp_out")]),
        ("input of the MLP", [dictionary("transcoder", "blocks.0.mlp.hook_in", site_out="blocks.0.hook_mlp_out")]),
        ("two", [dictionary("standard", "blocks.0.hook_resid_post", 1), dictionary("topk", "blocks.1.hook_attn_out", 2)]),
    ]


def tokens() -> Any:
    return (torch.arange(16).reshape(2, 8) * 7 + 3) % 43


def close(found: Any, expected: Any, name: str = "") -> None:
    assert found.shape == expected.shape, name
    found, expected = found.nan_to_num(neginf=0), expected.nan_to_num(neginf=0)  # scores of later positions
    assert float((found - expected).abs().max()) <= 2e-5 * max(1.0, float(expected.abs().max())), name


@pytest.mark.parametrize("uses_error", [False, True])
@pytest.mark.parametrize("name, saes", cases(), ids=lambda own: own if isinstance(own, str) else "")
def test_values_hooks_and_gradients(pair: Any, name: str, saes: list[Any], uses_error: bool) -> None:
    results = []
    for model in pair:
        plain = model(tokens())
        logits = model.run_with_saes(tokens(), saes=saes, use_error_term=uses_error)
        with model.saes(saes=saes, use_error_term=uses_error):
            _, cache = model.run_with_cache(tokens(), return_type="loss", incl_bwd=True)
            features = [name for name in model.hook_dict if name.endswith("hook_sae_acts_post")]
            assert len(features) == len(saes)
            written = model.run_with_hooks(tokens(), fwd_hooks=[(features[0], lambda value, hook: value * 2 + 0.1)])
        kept = model.run_with_cache_with_saes(tokens(), saes=saes, use_error_term=uses_error)[1]
        hooked = model.run_with_hooks_with_saes(tokens(), saes=saes, fwd_hooks=[(features[0], lambda value, hook: value * 0)])
        assert torch.equal(model(tokens()), plain) and not any("hook_sae" in own for own in model.hook_dict)
        results.append((logits, written, hooked, cache.cache_dict, kept.cache_dict))
    theirs, ours = results
    for i in range(3):
        close(ours[i].detach(), theirs[i].detach())
    for i in (3, 4):
        shared = [own for own in theirs[i] if own in ours[i]]
        assert sum("hook_sae" in own for own in shared) >= 5 * len(saes)
        assert {own for own in theirs[i] if "hook_sae" in own} <= set(ours[i])
        for own in shared:
            # TransformerLens keeps the gradient that comes through the queries.
            if not ("ln1" in own and own.endswith("_grad")):
                close(ours[i][own], theirs[i][own], own)


def test_dictionaries_that_stay(pair: Any) -> None:
    site = "blocks.0.hook_resid_post"
    first, second = dictionary("standard", site, 1), dictionary("standard", site, 2)
    results = []
    for model in pair:
        model.add_sae(first, use_error_term=False)
        assert list(model.acts_to_saes) == [site]
        one = model(tokens())
        with model.saes(saes=[second]):
            two = model(tokens())
        assert model.acts_to_saes[site] is first and torch.equal(model(tokens()), one)
        model.add_sae(second, exclude_special_tokens=[3, 10])
        some = model(tokens())
        model.reset_saes(site)
        assert not model.acts_to_saes
        results.append((one, two, some))
    for own, expected in zip(results[1], results[0], strict=True):
        close(own.detach(), expected.detach())
    with pytest.warns(UserWarning, match="no hook point"):
        pair[1].add_sae(dictionary("standard", "blocks.9.hook_resid_post"))


def test_the_gradient_of_a_dictionary(pair: Any) -> None:
    gradients = []
    for model in pair:
        sae = dictionary("standard", "blocks.0.hook_resid_post")
        model.run_with_saes(tokens(), saes=[sae], return_type="loss").backward()
        gradients.append(sae.W_dec.grad)
    close(gradients[1], gradients[0])


def store_of(model: Any, site: str) -> Any:
    from sae_lens import ActivationsStore

    rows = [{"tokens": ((torch.arange(16) * (i + 3) + i) % 43).tolist()} for i in range(64)]
    return ActivationsStore(
        model=model, dataset=datasets.Dataset.from_list(rows), streaming=False, hook_name=site, hook_head_index=None,
        context_size=16, d_in=24, n_batches_in_buffer=4, total_training_tokens=512, store_batch_size_prompts=4,
        train_batch_size_tokens=32, prepend_bos=False, normalize_activations="none", device=torch.device("cpu"),
        dtype="float32", activations_mixing_fraction=0,
    )


def test_a_store_and_an_evaluation(pair: Any) -> None:
    from sae_lens.evals import EvalConfig, run_evals
    from sae_lens.training.activation_scaler import ActivationScaler

    site = "blocks.0.hook_resid_post"
    sae = dictionary("standard", site)
    config = EvalConfig(
        batch_size_prompts=4, n_eval_reconstruction_batches=2, compute_kl=True, compute_ce_loss=True,
        n_eval_sparsity_variance_batches=2, compute_l2_norms=True, compute_sparsity_metrics=True, compute_variance_metrics=True,
    )
    rows, metrics = [], []
    for model in pair:
        rows.append(next(iter(store_of(model, site))))
        found, _ = run_evals(sae, store_of(model, site), model, ActivationScaler(), config, exclude_special_tokens=False)
        metrics.append(found)
    close(rows[1], rows[0])
    for group, values in metrics[0].items():
        for key, expected in values.items():
            assert metrics[1][group][key] == pytest.approx(expected, rel=1e-4, abs=1e-5), (group, key)


def test_the_training_runner_takes_the_model(tmp_path: Any) -> None:
    from sae_lens import LanguageModelSAERunnerConfig, LanguageModelSAETrainingRunner, StandardTrainingSAEConfig
    from sae_lens.config import LoggingConfig

    model = lens.HookedTransformer.from_pretrained_no_processing(threads=1)
    rows = datasets.Dataset.from_list([{"text": "Once upon a time there was a cat who had a hat. " * 8}] * 40)
    config = LanguageModelSAERunnerConfig(
        sae=StandardTrainingSAEConfig(d_in=256, d_sae=64, dtype="float32", device="cpu"), model_name="vitrine",
        hook_name="blocks.1.hook_resid_post", dataset_path="none", is_dataset_tokenized=False, streaming=False,
        context_size=16, training_tokens=256, train_batch_size_tokens=64, store_batch_size_prompts=4,
        n_batches_in_buffer=4, device="cpu", logger=LoggingConfig(log_to_wandb=False), n_checkpoints=0,
        output_path=str(tmp_path / "out"), checkpoint_path=None, exclude_special_tokens=False,
    )
    sae = LanguageModelSAETrainingRunner(config, override_dataset=rows, override_model=model).run()
    assert sae.W_dec.shape == (64, 256) and (tmp_path / "out" / "cfg.json").exists()
    assert isinstance(model.model, vitrine.Model)
