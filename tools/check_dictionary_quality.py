#!/usr/bin/env python3
"""Compares `eval --sae` with SAELens's evals: tools/check_dictionary_quality.py build/vitrine [--keep FOLDER]

Makes tiny random models of GPT-2, Gemma 2 and Gemma 3 with transformers, a tokenizer, a text, and random dictionaries of
SAELens's architectures, among them one of hook_z. Runs `vitrine eval --sae --json --out`, and sae_lens.evals on the same
model in float64, whose sites are hooks on transformers' modules. Of transcoders, which sae_lens.evals compares with their input, the
same formulas are computed here. Prints the largest relative difference of each case; the exit status is 1 above 1e-4.
Needs torch, transformers, tokenizers, safetensors and sae_lens 6.54.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from sae_lens import SAE, evals
from sae_lens.saes.sae import SAEMetadata
from sae_lens.training.activation_scaler import ActivationScaler
from tokenizers import Tokenizer, models
from transformers import AutoModelForCausalLM, Gemma2Config, Gemma3TextConfig, GPT2Config, logging

logging.disable_progress_bar()

LIMIT = 1e-4
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456"
WINDOW, WINDOWS = 24, 5
GEMMA = dict(vocab_size=61, hidden_size=36, intermediate_size=44, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, head_dim=10, max_position_embeddings=96, sliding_window=7, bos_token_id=0,
             eos_token_id=1, pad_token_id=None, query_pre_attn_scalar=17)
CONFIGS = {
    "gpt2": GPT2Config(vocab_size=61, n_positions=96, n_embd=28, n_layer=3, n_head=4, n_inner=52, bos_token_id=0,
                       eos_token_id=1),
    "gemma2": Gemma2Config(**GEMMA, attn_logit_softcapping=9.0, final_logit_softcapping=11.0),
    "gemma3": Gemma3TextConfig(**GEMMA),
}


class Hooked:
    """A model of transformers with the methods that sae_lens.evals calls."""

    def __init__(self, model):
        self.model, self.tokenizer = model, None
        self.base = model.transformer if hasattr(model, "transformer") else model.model
        self.layers = self.base.h if hasattr(self.base, "h") else self.base.layers
        self.heads = model.config.num_attention_heads

    def place(self, name):
        """The module of a site, and whether the site is its input."""
        layer = self.layers[int(name.split(".")[1])]
        site = name.split(".", 2)[2]
        gpt2 = hasattr(layer, "ln_1")
        if site == "attn.hook_z":
            return (layer.attn.c_proj if gpt2 else layer.self_attn.o_proj), True
        if site == "hook_resid_post":
            return layer, False
        if site == "ln2.hook_out":
            return (layer.ln_2 if gpt2 else layer.pre_feedforward_layernorm), False
        if site == "hook_mlp_out":
            return (layer.mlp if gpt2 else layer.post_feedforward_layernorm), False
        raise ValueError(name)

    @contextlib.contextmanager
    def hooked(self, fwd_hooks):
        handles = []
        for name, function in fwd_hooks:
            module, is_input = self.place(name)
            has_heads = name.endswith("hook_z")

            def changed(value, function=function, has_heads=has_heads):
                shaped = value.unflatten(-1, (self.heads, -1)) if has_heads else value
                result = function(shaped, hook=None)
                result = shaped if result is None else result
                return result.flatten(-2, -1) if has_heads else result

            if is_input:
                handles.append(module.register_forward_pre_hook(lambda _, args, f=changed: (f(args[0]), *args[1:])))
            else:
                handles.append(module.register_forward_hook(
                    lambda _, args, out, f=changed: (f(out[0]), *out[1:]) if isinstance(out, tuple) else f(out)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def __call__(self, tokens, return_type="both", loss_per_token=True, **_):
        logits = self.model(tokens).logits
        losses = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
        return logits, losses.reshape(tokens.shape[0], -1)

    def run_with_hooks(self, tokens, fwd_hooks=(), **kwargs):
        with self.hooked(fwd_hooks):
            return self(tokens, **kwargs)

    def run_with_cache(self, tokens, names_filter=(), **_):
        cache = {}

        def keep(name):
            return lambda value, hook: cache.__setitem__(name, value.detach().clone())

        logits, _ = self.run_with_hooks(tokens, [(name, keep(name)) for name in names_filter])
        return logits, cache


class Store:
    def __init__(self, tokens):
        self.tokens = tokens
        self.store_batch_size_prompts, self.context_size = tokens.shape

    def get_batch_tokens(self, *_, **__):
        return self.tokens

    def reset_input_dataset(self):
        pass


def write_model(name, folder):
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(CONFIGS[name]).float().eval()
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter) * (0.25 if parameter.ndim > 1 else 0.1)
    for key, parameter in model.named_parameters():
        if "ln_" in key and key.endswith("weight"):  # GPT-2's norms multiply by the weight itself
            parameter.data += 1
    model.save_pretrained(folder)
    model.double()  # float32 rounds small divergences by more than the limit
    vocab = {"<s>": 0, **{c: i + 1 for i, c in enumerate(ALPHABET)}, "#": 60}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump({"bos_token": "<s>", "add_bos_token": True, "tokenizer_class": "PreTrainedTokenizerFast"}, f)
    return Hooked(model)


def random_sae(architecture, name, d_in, out, hook_out=None, d_out=None, **keys):
    d_sae = 4 * d_in + 3
    cfg = {"architecture": architecture, "d_in": d_in, "d_sae": d_sae, "dtype": "float32", "device": "cpu",
           "apply_b_dec_to_input": hook_out is None, "normalize_activations": "none", "reshape_activations": "none",
           "metadata": SAEMetadata(model_name="any", hook_name=name, hook_name_out=hook_out).to_dict(), **keys}
    if hook_out:
        cfg["d_out"] = d_out
    sae = SAE.from_dict(cfg)
    for key, parameter in sae.named_parameters():
        parameter.data = torch.randn_like(parameter) * (0.3 if parameter.ndim > 1 else 0.1)
        if key == "threshold":
            parameter.data = parameter.data.abs()
    sae.save_model(out)
    return sae


def of_transcoder(sae, hooked, tokens, kept, name, name_out):
    """The metrics of a transcoder: y is the value of its output site."""
    logits, cache = hooked.run_with_cache(tokens, names_filter=[name, name_out])
    x, y = cache[name], cache[name_out]
    acts = sae.encode(x)
    z = sae.decode(acts)
    if getattr(sae, "W_skip", None) is not None:
        z = z + x @ sae.W_skip.T
    _, own = hooked(tokens)
    replaced = hooked.run_with_hooks(tokens, [(name_out, lambda v, hook: torch.where(kept[..., None], z, v))])
    zeroed = hooked.run_with_hooks(tokens, [(name_out, lambda v, hook: torch.zeros_like(v))])
    y, z, acts = y[kept].double(), z[kept].double(), acts[kept].double()
    norm = y.norm(dim=-1)
    kl = [evals._kl(logits, other)[kept].double().mean().item() for other, _ in (replaced, zeroed)]
    ce = [loss[kept[:, :-1]].double().mean().item() for loss in (own, replaced[1], zeroed[1])]
    return {
        "l0": (acts != 0).sum(-1).double().mean().item(), "l1": acts.abs().sum(-1).mean().item(),
        "explained_variance": (1 - (y - z).pow(2).sum() / (y - y.mean(0)).pow(2).sum()).item(),
        "mse": (y - z).pow(2).sum(-1).mean().item(),
        "cossim": torch.nn.functional.cosine_similarity(y, z, dim=-1).mean().item(),
        "l2_norm_in": norm.mean().item(), "l2_norm_out": z.norm(dim=-1).mean().item(),
        "l2_ratio": (z.norm(dim=-1) / norm).mean().item(),
        "relative_reconstruction_bias": (z.pow(2).sum(-1).mean() / (y * z).sum(-1).mean()).item(),
        "ce_loss_without_sae": ce[0], "ce_loss_with_sae": ce[1], "ce_loss_with_ablation": ce[2],
        "ce_loss_score": (ce[2] - ce[1]) / (ce[2] - ce[0]), "kl_div_with_sae": kl[0], "kl_div_with_ablation": kl[1],
        "kl_div_score": (kl[1] - kl[0]) / kl[1],
    }, {"feature_density": (acts != 0).double().mean(0).tolist(), **evals.get_featurewise_weight_based_metrics(sae)}


@torch.no_grad()
def check(program, model, case, folder):
    hooked = write_model(model, os.path.join(folder, model))
    name, name_out = case.pop("site"), case.pop("site_out", None)
    letters = torch.randint(1, 61, (WINDOWS, WINDOW - 1), generator=torch.Generator().manual_seed(5))
    text = "".join((ALPHABET + "#")[i - 1] for i in letters.flatten().tolist())
    with open(os.path.join(folder, "text.txt"), "w") as f:
        f.write(text)
    tokens = torch.cat([torch.zeros(WINDOWS, 1, dtype=torch.long), letters], 1)
    _, cache = hooked.run_with_cache(tokens, names_filter=[name] + ([name_out] if name_out else []))
    width = cache[name].shape[-1] * (cache[name].shape[-2] if name.endswith("hook_z") else 1)
    d_out = cache[name_out].shape[-1] if name_out else None
    path = os.path.join(folder, "sae")
    sae = random_sae(d_in=width, name=name, out=path, hook_out=name_out, d_out=d_out, **case)
    sae = SAE.load_from_disk(path).to(dtype=torch.float64)
    kept = tokens != 0
    if name_out:
        want, features = of_transcoder(sae, hooked, tokens, kept, name, name_out)
    else:
        if not name.endswith("hook_z"):
            sae.turn_off_forward_pass_hook_z_reshaping = lambda: None
        groups, features = evals.run_evals(
            sae, Store(tokens), hooked, ActivationScaler(),
            evals.get_eval_everything_config(batch_size_prompts=WINDOWS, n_eval_reconstruction_batches=1),
            exclude_special_tokens=[0])
        want = {key: value for group in groups.values() for key, value in group.items()}
    out = os.path.join(folder, "out.safetensors")
    done = subprocess.run([program, "eval", os.path.join(folder, model), os.path.join(folder, "text.txt"), "--sae", path,
                           "--window", str(WINDOW), "--json", "--out", out], capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr)
        return float("inf")
    got = json.loads(done.stdout)["saes"][0]
    written = load_file(out)
    worst, where = 0.0, ""
    for key, value in got.items():
        if key in ("name", "site", "tokens", "dead"):
            continue
        difference = abs(value - want[key]) / max(abs(want[key]), 1e-12)
        if difference > worst:
            worst, where = difference, key
    for key in ("feature_density", "encoder_norm", "encoder_decoder_cosine_sim"):
        difference = (written[f"{got['site']}.{key}"] - torch.tensor(features[key])).abs().max().item()
        if not difference <= worst:
            worst, where = difference, key
    dead = sum(density == 0 for density in features["feature_density"])
    if got["tokens"] != int(kept.sum()) or got["dead"] != dead:
        return float("inf")
    print(f"{model:8} {case['architecture']:24} {name_out or name:28} {worst:.1e} ({where})", flush=True)
    return worst


def cases():
    resid = "blocks.1.hook_resid_post"
    for model in CONFIGS:
        for architecture, keys in (("standard", {}), ("standard", {"normalize_activations": "layer_norm"}),
                                   ("standard", {"normalize_activations": "constant_norm_rescale"}), ("gated", {}),
                                   ("topk", {"k": 7}), ("topk", {"k": 5, "rescale_acts_by_decoder_norm": True}),
                                   ("jumprelu", {})):
            yield model, {"architecture": architecture, "site": resid, **keys}
        yield model, {"architecture": "standard", "site": "blocks.2.hook_resid_post"}
        yield model, {"architecture": "standard", "site": "blocks.1.attn.hook_z"}
        for architecture in ("transcoder", "skip_transcoder"):
            yield model, {"architecture": architecture, "site": "blocks.1.ln2.hook_out",
                          "site_out": "blocks.1.hook_mlp_out"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("--keep", help="where to write the files, which remain")
    o = parser.parse_args()
    torch.set_num_threads(1)
    with contextlib.ExitStack() as stack:
        folder = o.keep or stack.enter_context(tempfile.TemporaryDirectory())
        os.makedirs(folder, exist_ok=True)
        worst = max(check(o.program, model, case, folder) for model, case in cases())
    print(f"largest difference: {worst:.1e}, limit {LIMIT:.0e}")
    sys.exit(0 if worst <= LIMIT else 1)


if __name__ == "__main__":
    main()
