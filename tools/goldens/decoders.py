"""Makes the goldens: tiny random checkpoints and every intermediate value of one forward.

    python tools/goldens decoders [CASE...]            write tests/goldens/<case>/ (default: all)
    python tools/goldens decoders --check [CASE...]    make them in a temporary folder and compare
    python tools/goldens decoders --gradients [CASE...]    only gradients.safetensors, from the existing checkpoints
    python tools/goldens decoders --differences [CASE...]  only differences.json, from the existing checkpoints
    python tools/goldens decoders --list               list what each case proves

Each case folder holds a checkpoint as users have it (config.json and model.safetensors, or shards
with an index) and these files:
  golden.safetensors      the named sites of one forward by transformers, in float32 with eager attention; of families
                          with states in float64, rounded when they are stored
  gradients.safetensors   the mean loss of the same prompt and its gradient with respect to every parameter
  differences.json        central differences of that loss in float64, for a few elements of each tensor
The model is always loaded back from the written files, so the goldens are transformers' values for exactly these files. The cases are in decoder_cases.py
and state_cases.py, the sites in sites.py and mixers.py, the gradients in gradients.py, the differences in differences.py;
`figures` adds figures.json to some of the folders. Needs torch, transformers, safetensors and numpy.
"""

import argparse
import copy
import filecmp
import json
import math
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
import transformers
from goldens.decoder_cases import GAINS, NEUTRAL_SPREAD, QK_NORM_GAIN, Case
from goldens.differences import InFloat64, differences, leave_angles
from goldens.files import GOLDENS
from goldens.gradients import gradients
from goldens.sites import Sites, activation_slot, build_sites, record, weight_offset
from goldens.state_cases import CASES
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.activations import ACT2FN
from transformers.pytorch_utils import Conv1D

GOLDEN_NAME = "golden.safetensors"
GRADIENTS_NAME = "gradients.safetensors"
FIGURES_NAME = "figures.json"  # by figures.py
DIFFERENCES_NAME = "differences.json"


# --- the checkpoint -------------------------------------------------------------------------------


def case_random(case: Case, purpose: str) -> np.random.Generator:
    """A separate generator for each case and purpose, so that no case depends on another."""
    return np.random.default_rng(zlib.crc32(f"{case.name}/{purpose}".encode()))


def prompt(case: Case) -> Tensor:
    """The token ids: random, with the first and the last id of the vocabulary among them."""
    vocabulary = case.config["vocab_size"]
    ids = case_random(case, "prompt").integers(0, vocabulary, case.tokens)
    ids[2], ids[case.tokens - 3] = vocabulary - 1, 0
    return torch.from_numpy(ids)


def gain_of(case: Case, module_name: str) -> float:
    """The gain of the longest suffix of the name that has one; the case's table comes first."""
    gains = {**GAINS, **case.gains}
    return gains[max((suffix for suffix in gains if module_name.endswith(suffix)), key=len)]


def is_qk_norm(module_name: str) -> bool:
    names = ("q_norm", "k_norm", "query_layernorm", "key_layernorm", "q_layernorm", "k_layernorm")
    return module_name.split(".norms.")[0].endswith(names)


def randomize(model: PreTrainedModel, case: Case) -> None:
    """Overwrites every parameter, including those that transformers initializes to zero or one."""
    random = case_random(case, "weights")
    for name, parameter in model.named_parameters():
        module_name, kind = name.rsplit(".", 1)
        module = model.get_submodule(module_name)
        noise = torch.from_numpy(random.standard_normal(parameter.shape, dtype=np.float32))
        is_norm = type(module).__name__.endswith("Norm") and kind == "weight"
        if parameter.ndim > 1 and not is_norm:
            fan_in = parameter.shape[0 if isinstance(module, Conv1D) else -1]
            whole_name = module_name if kind == "weight" else name  # experts are not modules
            value = noise * gain_of(case, whole_name) / math.sqrt(fan_in)
        elif kind == "weight":  # a norm, which may store the difference from one
            offset = weight_offset(module)
            if is_qk_norm(module_name):
                gain = case.gains.get("qk_norm", QK_NORM_GAIN)
                value = gain * (1.0 + NEUTRAL_SPREAD * noise) - offset
            else:
                value = 1.0 - offset + NEUTRAL_SPREAD * noise
        elif kind.endswith("scale"):  # a factor
            value = 1.0 + NEUTRAL_SPREAD * noise
        else:
            value = NEUTRAL_SPREAD * noise
        parameter.data.copy_(value)


def randomize_corrections(model: PreTrainedModel, case: Case) -> None:
    """Overwrites the buffers that are added to the scores of experts for the choice, and those that are factors."""
    random = case_random(case, "corrections")
    for name, buffer in model.named_buffers():
        if name.endswith("layer_scalar"):
            noise = random.standard_normal(buffer.shape, dtype=np.float32)
            buffer.copy_(1.0 + NEUTRAL_SPREAD * torch.from_numpy(noise))
        if name.endswith(("e_score_correction_bias", "feed_forward.expert_bias")):
            noise = random.standard_normal(buffer.shape, dtype=np.float32)
            buffer.copy_(NEUTRAL_SPREAD * torch.from_numpy(noise))


def write_checkpoint(case: Case, folder: Path) -> PreTrainedModel:
    """Writes config.json and the weights; returns the model with the stored (rounded) weights."""
    model = case.model_class(case.model_class.config_class.from_dict(copy.deepcopy(case.config)))
    randomize(model, case)
    randomize_corrections(model, case)
    model.to(case.dtype)
    model.save_pretrained(folder, max_shard_size=case.shard_size)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if case.published:
        (folder / "config.json").write_text(json.dumps(case.config, indent=2) + "\n")
    if case.bare_names:
        write_bare_names(model, folder / "model.safetensors")
    for path in folder.iterdir():
        path.chmod(0o644)  # safetensors creates files that only the owner can read
    return model


def write_bare_names(model: PreTrainedModel, path: Path) -> None:
    """GPT-2 as the first releases stored it: no prefix, and the causal mask among the weights."""
    tensors = {
        name.removeprefix("transformer."): value.clone()
        for name, value in model.state_dict().items()
    }
    size = model.config.n_positions
    for layer in range(model.config.n_layer):
        mask = torch.ones(size, size).tril()
        tensors[f"h.{layer}.attn.bias"] = mask.view(1, 1, size, size).clone()
        tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})


def load(case: Case, folder: Path, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """The model as transformers reads it from the folder."""
    # Its fast products of experts do not support float64, or rows that are not whole vectors.
    ways = {"experts_implementation": "eager"} if dtype is torch.float64 or case.is_double else {}
    model = case.model_class.from_pretrained(folder, dtype=dtype, attn_implementation="eager", **ways)
    return model.to(dtype).eval()  # some routers stay float32 otherwise


def write_tensors(path: Path, tensors: Sites, metadata: dict[str, str]) -> None:
    """save_file with sorted metadata, which the library writes in random order."""
    data = safetensors.torch.save(tensors, metadata)
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = dict(sorted(metadata.items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    assert len(text) <= length, "the sorted header must not be longer than the original"
    path.write_bytes(data[:8] + text.ljust(length) + data[8 + length :])


# --- does the golden detect mistakes? -------------------------------------------------------------


def each(model: PreTrainedModel, class_suffix: str) -> list[nn.Module]:
    """The modules whose class name ends with `class_suffix`, e.g. all attention modules."""
    return [module for module in model.modules() if type(module).__name__.endswith(class_suffix)]


def forget_embed_scale(model: PreTrainedModel) -> None:
    model.get_input_embeddings().embed_scale.fill_(1.0)


def forget_rope(model: PreTrainedModel) -> None:
    model.model.rotary_emb.inv_freq.zero_()


def forget_rope_scaling(model: PreTrainedModel) -> None:
    rotary = model.model.rotary_emb
    rotary.inv_freq.copy_(rotary.compute_default_rope_parameters(model.config)[0])


def forget_attn_softcap(model: PreTrainedModel) -> None:
    for attention in each(model, "Attention"):
        attention.attn_logit_softcapping = None


def forget_final_softcap(model: PreTrainedModel) -> None:
    model.config.final_logit_softcapping = None


def forget_ropes(model: PreTrainedModel) -> None:
    for name, buffer in model.model.rotary_emb.named_buffers():
        if name.endswith("inv_freq"):
            buffer.zero_()


def forget_layer_scalars(model: PreTrainedModel) -> None:
    for layer in model.model.layers:
        layer.layer_scalar.fill_(1.0)


def forget_per_layer_table(model: PreTrainedModel) -> None:
    model.model.embed_tokens_per_layer.weight.data.zero_()


def forget_prediction(model: PreTrainedModel) -> None:
    for layer in model.model.layers:
        layer.altup.prediction_coefs.weight.data.zero_()


def forget_correction(model: PreTrainedModel) -> None:
    for layer in model.model.layers:
        layer.altup.correction_coefs.weight.data.zero_()


def forget_correction_scale(model: PreTrainedModel) -> None:
    model.config.altup_correct_scale = False


def assume_first_stream_active(model: PreTrainedModel) -> None:
    model.config.altup_active_idx = 0


def forget_laurel(model: PreTrainedModel) -> None:
    for layer in model.model.layers:
        layer.laurel.linear_right.weight.data.zero_()


def forget_sparsity(model: PreTrainedModel) -> None:
    for mlp in each(model, "MLP"):
        mlp.activation_sparsity = 0.0


def forget_expert_scale(model: PreTrainedModel) -> None:
    for layer in model.model.layers:
        layer.router.per_expert_scale.data.fill_(1.0)


def forget_router_scale(model: PreTrainedModel) -> None:
    for layer in model.model.layers:
        layer.router.scale.data.fill_(1.0)


def forget_clip(model: PreTrainedModel) -> None:
    model.config.clip_qkv = None


def forget_window(model: PreTrainedModel) -> None:
    model.config.layer_types = ["full_attention"] * model.config.num_hidden_layers


def assume_alternating_layers(model: PreTrainedModel) -> None:
    kinds = ["sliding_attention", "full_attention"]
    model.config.layer_types = [kinds[i % 2] for i in range(model.config.num_hidden_layers)]


def forget_query_scalar(model: PreTrainedModel) -> None:
    for attention in each(model, "Attention"):
        attention.scaling = attention.head_dim**-0.5


def swap_gelu_form(model: PreTrainedModel) -> None:
    for mlp in each(model, "MLP"):
        slot = activation_slot(mlp)
        exact = isinstance(getattr(mlp, slot), type(ACT2FN["gelu"]))
        setattr(mlp, slot, ACT2FN["gelu_pytorch_tanh" if exact else "gelu"])


def forget_biases(model: PreTrainedModel) -> None:
    for module in model.modules():
        if isinstance(module, (nn.Linear, Conv1D)) and module.bias is not None:
            module.bias.data.zero_()


def forget_convolutions(model: PreTrainedModel) -> None:
    for module in model.modules():
        if isinstance(module, nn.Conv1d):
            module.weight.data[..., :-1].zero_()


def forget_decay(model: PreTrainedModel) -> None:
    for name, parameter in model.named_parameters():
        if name.endswith("A_log"):
            parameter.data.fill_(-30.0)


def forget_skip(model: PreTrainedModel) -> None:
    for name, parameter in model.named_parameters():
        if name.endswith(".D"):
            parameter.data.zero_()


def forget_positions(model: PreTrainedModel) -> None:
    model.transformer.wpe.weight.data.zero_()


def assume_default_norm_eps(model: PreTrainedModel) -> None:
    for norm in each(model, "LayerNorm"):
        norm.eps = 1e-5


ABLATIONS: dict[str, Callable[[PreTrainedModel], None]] = {
    "embed_scale": forget_embed_scale,
    "rope": forget_rope,
    "rope_scaling": forget_rope_scaling,
    "attn_softcap": forget_attn_softcap,
    "final_softcap": forget_final_softcap,
    "clip": forget_clip,
    "ropes": forget_ropes,
    "layer_scalars": forget_layer_scalars,
    "per_layer_table": forget_per_layer_table,
    "prediction": forget_prediction,
    "correction": forget_correction,
    "correction_scale": forget_correction_scale,
    "active_stream": assume_first_stream_active,
    "laurel": forget_laurel,
    "sparsity": forget_sparsity,
    "expert_scale": forget_expert_scale,
    "router_scale": forget_router_scale,
    "window": forget_window,
    "layer_types": assume_alternating_layers,
    "query_scalar": forget_query_scalar,
    "layer_scale": forget_query_scalar,
    "gelu_form": swap_gelu_form,
    "biases": forget_biases,
    "positions": forget_positions,
    "norm_eps": assume_default_norm_eps,
    "convolutions": forget_convolutions,
    "decay": forget_decay,
    "skip": forget_skip,
}


def assert_sensitive(case: Case, folder: Path, ids: Tensor, logits: Tensor) -> None:
    """Asserts that each ablation of the case changes the logits by at least the relative amount that the case demands."""
    for name, demanded in case.ablations.items():
        mistaken = load(case, folder)
        ABLATIONS[name](mistaken)
        with torch.no_grad():
            change = (mistaken(ids[None], use_cache=False).logits[0] - logits.float()).abs().max() / logits.abs().max()
        assert change > demanded, f"{case.name}: {name} changes the logits by only {change:.2g}"


def assert_rope_bands(model: PreTrainedModel) -> None:
    """Llama 3 scaling: some frequencies are kept, some divided by the factor, some in between."""
    rotary, parameters = model.model.rotary_emb, model.config.rope_parameters
    plain = rotary.compute_default_rope_parameters(model.config)[0]
    ratio, lowest = rotary.inv_freq / plain, 1.0 / parameters["factor"]
    kept, divided = ratio > 1.0 - 1e-6, ratio < lowest + 1e-6
    assert kept.any() and divided.any() and (~kept & ~divided).any(), f"rope bands: {ratio}"


def assert_loaded(written: PreTrainedModel, model: PreTrainedModel) -> None:
    """Asserts that transformers found every parameter in the files, with exactly the stored value."""
    stored = dict(written.named_parameters())
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, stored.pop(name).float()), f"{name} was not read back"
    assert not stored, f"not read back: {sorted(stored)}"
    tied = model.lm_head.weight is model.get_input_embeddings().weight
    assert tied == model.config.tie_word_embeddings, "tying differs from the config"


def statistics(sites: Sites) -> dict[str, float]:
    """Statistics that show whether attention or logits are saturated or flat."""
    masks = [value for name, value in sites.items() if name.endswith("attn.hook_attn_scores")]
    raws = [value for name, value in sites.items() if name.endswith("attn.hook_scores_raw")]
    patterns = [value for name, value in sites.items() if name.endswith("attn.hook_pattern")]
    peaks, uneven = [], []
    for scores, pattern in zip(masks, patterns, strict=True):
        choices = scores.isfinite().sum(-1)
        peak = pattern.max(-1).values[choices > 2]
        peaks.append(peak)
        uneven.append(peak * choices[choices > 2] > 2.0)
    allowed = [raw[scores.isfinite()] for raw, scores in zip(raws, masks, strict=True)]
    of_logits = {
        "max_logit": sites["hook_logits"].abs().max().item(),
        "logit_std": sites["unembed.hook_out"].std().item(),
    }
    if not peaks:
        return of_logits
    return of_logits | {
        "score_std": torch.cat(allowed).std().item(),
        "non_uniform": torch.cat(uneven).float().mean().item(),
        "one_hot": (torch.cat(peaks) > 0.99).float().mean().item(),
    }


def assert_lively(case: Case, numbers: dict[str, float]) -> None:
    """Asserts that attention and logits have a scale at which mistakes are visible."""
    assert 1.0 < numbers["logit_std"] < 6.0, (case.name, numbers)
    if "score_std" not in numbers:
        return
    assert case.least_score_std < numbers["score_std"] < 5.0, (case.name, numbers)
    assert numbers["non_uniform"] > 0.5, (case.name, numbers)
    assert numbers["one_hot"] < 0.2, (case.name, numbers)


# --- the golden -----------------------------------------------------------------------------------


def selected(case: Case, sites: Sites) -> Sites:
    """The sites to store: all, or for a long prompt the logits at some positions."""
    if not case.positions:
        return sites
    positions = torch.tensor(case.positions)
    return {
        "hook_tokens": sites["hook_tokens"],
        "positions": positions.float(),
        "logits_at": sites["hook_logits"][positions].contiguous(),
    }


@contextmanager
def forward_of(case: Case, folder: Path) -> Iterator[PreTrainedModel]:
    """The model of the written files; in a case of float64, functions do not round to float32 within this context."""
    if not case.is_double:
        yield load(case, folder)
        return
    model, mode = load(case, folder, torch.float64), InFloat64()
    leave_angles(model, mode)
    with mode:
        yield model


def metadata_of(case: Case) -> dict[str, str]:
    return {
        "case": case.name,
        "transformers": transformers.__version__,
        "torch": torch.__version__,
    }


def make_gradients(case: Case, folder: Path) -> None:
    """Writes gradients.safetensors to the checkpoint's folder."""
    with forward_of(case, folder) as model:
        exact = gradients(model, prompt(case))
    tensors = {name: value.float() for name, value in exact.items()}  # here, as InFloat64 knows no float32
    if case.bare_names:
        tensors = {name.removeprefix("transformer."): value for name, value in tensors.items()}
    write_tensors(folder / GRADIENTS_NAME, tensors, metadata_of(case))


def make_differences(case: Case, folder: Path) -> None:
    """Writes differences.json to the checkpoint's folder."""
    made = differences(load(case, folder, torch.float64), prompt(case), case_random(case, "differences"))
    if case.bare_names:
        for element in made["elements"]:
            element["name"] = element["name"].removeprefix("transformer.")
    print(f"{case.name}: largest error against float64's gradients: {made['largest_error']:.1e}")
    del made["largest_error"]
    lines = ",\n".join("  " + json.dumps(element) for element in made.pop("elements"))
    head = json.dumps(metadata_of(case) | made)[:-1]
    (folder / DIFFERENCES_NAME).write_text(head + ', "elements": [\n' + lines + "\n]}\n")


def make_case(case: Case, folder: Path) -> dict[str, float]:
    """Writes one case to `folder` and checks it; returns its statistics."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name != FIGURES_NAME:
            path.unlink()
    written = write_checkpoint(case, folder)
    model, ids = load(case, folder), prompt(case)
    assert_loaded(written, model)
    if (getattr(model.config, "rope_parameters", None) or {}).get("rope_type") == "llama3":
        assert_rope_bands(model)
    with forward_of(case, folder) as runs:
        sites = build_sites(runs, case.layout, ids, record(runs, ids))
    numbers = statistics(sites)
    assert_lively(case, numbers)
    assert_sensitive(case, folder, ids, sites["hook_logits"])
    rounded = {name: value.float() for name, value in selected(case, sites).items()}
    write_tensors(folder / GOLDEN_NAME, rounded, metadata_of(case))
    make_gradients(case, folder)
    make_differences(case, folder)
    return numbers | {"bytes": sum(path.stat().st_size for path in folder.iterdir())}


def compare(made: Path, committed: Path) -> str:
    """Asserts that every file has the same bytes, apart from the last bits of golden values and gradients.

    Those depend on the vector instructions of the processor; the checkpoint itself must be equal.
    """
    names = {path.name for folder in (made, committed) for path in folder.iterdir()} - {FIGURES_NAME}
    _, different, missing = filecmp.cmpfiles(made, committed, sorted(names), shallow=False)
    computed = {GOLDEN_NAME, GRADIENTS_NAME, DIFFERENCES_NAME}
    wrong = set(different) - computed | set(missing)
    assert not wrong, f"{committed}: {sorted(wrong)} differ"
    for file in different:
        if file == DIFFERENCES_NAME:
            new, old = (json.loads((folder / file).read_text())["elements"] for folder in (made, committed))
            for a, b in zip(new, old, strict=True):
                assert (a["name"], a["index"]) == (b["name"], b["index"]), f"{committed / file}: other elements"
                assert abs(a["value"] - b["value"]) <= 2e-8, f"{committed / file}: expected {b}, got {a}"
            continue
        new, old = (safetensors.torch.load_file(folder / file) for folder in (made, committed))
        assert new.keys() == old.keys(), f"{committed / file}: other names"
        # the absolute error of a gradient scales with the largest of all gradients
        most = max(value.abs().max().item() for value in old.values())
        for name, value in new.items():
            where = f"{made.name}/{file}: {name}"
            atol = 1e-4 if file == GOLDEN_NAME else 3e-5 * old[name].abs().max().item() + 1e-7 * most
            torch.testing.assert_close(value, old[name], rtol=1e-4, atol=atol, msg=where)
    return "same up to rounding" if different else "same bytes"


def print_table(rows: dict[str, dict[str, float]]) -> None:
    """One line per case: its size and statistics."""
    heads = f"{'bytes':>9}{'max|logit|':>12}{'score std':>11}{'non-uniform':>13}{'one-hot':>9}"
    print(f"{'case':26}{heads}")
    for name, row in rows.items():
        of_attention = "".join(
            f"{row[key]:{width}.2f}" for key, width in (("score_std", 11), ("non_uniform", 13), ("one_hot", 9)) if key in row
        )
        print(f"{name:26}{row['bytes']:9d}{row['max_logit']:12.2f}{of_attention}")
    print(f"{'total':26}{sum(row['bytes'] for row in rows.values()):9d}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all cases")
    parser.add_argument("--check", action="store_true", help="compare with the existing files")
    parser.add_argument("--list", action="store_true", help="only list what each case proves")
    parser.add_argument(
        "--gradients", action="store_true", help="only gradients, from the existing checkpoints"
    )
    parser.add_argument(
        "--differences", action="store_true", help="only differences, from the existing checkpoints"
    )
    options = parser.parse_args()
    unknown = set(options.cases) - {case.name for case in CASES}
    if options.check + options.gradients + options.differences > 1:
        parser.error("expected one of --check, --gradients and --differences")
    if unknown:
        parser.error(f"unknown case: {', '.join(sorted(unknown))}")
    return options


def main() -> None:
    options = arguments()
    if options.list:
        print("\n".join(f"{case.name:26}{case.proves}" for case in CASES))
        return
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)  # the order of additions must not depend on the machine's cores
    rows = {}
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) if options.check else GOLDENS
        for case in CASES:
            if options.cases and case.name not in options.cases:
                continue
            if options.gradients:
                make_gradients(case, GOLDENS / case.name)
                continue
            if options.differences:
                make_differences(case, GOLDENS / case.name)
                continue
            rows[case.name] = make_case(case, root / case.name)
            if options.check:
                print(f"{case.name}: {compare(root / case.name, GOLDENS / case.name)}")
    if rows:
        print_table(rows)
