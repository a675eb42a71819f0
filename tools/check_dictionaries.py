#!/usr/bin/env python3
"""Compares dictionaries of features with float64: tools/check_dictionaries.py build/vitrine [--keep FOLDER] [--gguf]

Makes random models of GPT-2, Gemma 2 and Gemma 3 of odd shapes, and random dictionaries of every SAELens architecture.
The reference is written here: a dictionary by its formulas (docs/features.md), in float64, as a hook on the modules of
transformers in float64. Compared are the activations, the active sets, reconstruction and error; the logits when a feature
is steered, ablated or clamped and when the reconstruction replaces the site; the log-probabilities of 24 tokens that are
generated with a cache while a feature is steered; the gradients of a logit at the features. --gguf also compares models
that `vitrine quantize` has made, with --compute f32, with their dequantized weights; it needs the package gguf.
Prints the largest difference of each case over 1 + the largest value; the exit status is 1 above 1e-5 (gradients: 5e-4 of
the largest). Needs torch, transformers, safetensors and tokenizers.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, Gemma2Config, Gemma3TextConfig, GPT2Config, logging

logging.disable_progress_bar()

LIMIT, GRADIENT_LIMIT, MARGIN = 1e-5, 5e-4, 1e-6
VOCAB = 61
GEMMA = dict(vocab_size=VOCAB, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=96, sliding_window=7, bos_token_id=0, eos_token_id=None, pad_token_id=None,
             query_pre_attn_scalar=17, tie_word_embeddings=True)
IDS = [5, 9, 33, 7, 12, 40, 11, 60, 2, 14, 27]
STEERED = 13


def config_of(name, wide):
    """Small odd shapes, or with `wide` rows of whole blocks of 256 as quantized types need."""
    gemma = dict(GEMMA, **(dict(hidden_size=256, intermediate_size=512, head_dim=64, query_pre_attn_scalar=64) if wide else
                           dict(hidden_size=36, intermediate_size=44, head_dim=10)))
    if name == "gpt2":
        return GPT2Config(vocab_size=VOCAB, n_positions=96, n_embd=256 if wide else 28, n_layer=3, n_head=4,
                          n_inner=512 if wide else 52, bos_token_id=0, eos_token_id=None)
    if name == "gemma2":
        return Gemma2Config(**gemma, attn_logit_softcapping=9.0, final_logit_softcapping=11.0)
    return Gemma3TextConfig(**gemma)


def write_model(name, folder, wide):
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config_of(name, wide)).float().eval()
    for parameter in model.parameters():
        spread = 0.1 if parameter.ndim == 1 else (0.08 if wide else 0.25)
        parameter.data = torch.randn_like(parameter) * spread
    model.save_pretrained(folder)
    return model.double().requires_grad_(False)


class Sites:
    """The sites of a model as hooks on its modules: functions of a value, with heads next to each other."""

    def __init__(self, model):
        self.model = model
        base = model.transformer if hasattr(model, "transformer") else model.model
        self.layers = base.h if hasattr(base, "h") else base.layers

    def place(self, name):
        layer, site = self.layers[int(name.split(".")[1])], name.split(".", 2)[2]
        gpt2 = hasattr(layer, "ln_1")
        return {
            "attn.hook_z": (layer.attn.c_proj if gpt2 else layer.self_attn.o_proj, True),
            "hook_resid_post": (layer, False),
            "hook_resid_pre": (layer, True),
            "ln2.hook_out": (layer.ln_2 if gpt2 else layer.pre_feedforward_layernorm, False),
            "hook_mlp_out": (layer.mlp if gpt2 else layer.post_feedforward_layernorm, False),
        }[site]

    @contextlib.contextmanager
    def hooked(self, hooks):
        handles = []
        for name, function in hooks:
            module, is_input = self.place(name)
            if is_input:
                handles.append(module.register_forward_pre_hook(lambda _, a, f=function: (f(a[0]), *a[1:])))
            else:
                handles.append(module.register_forward_hook(
                    lambda _, a, out, f=function: (f(out[0]), *out[1:]) if isinstance(out, tuple) else f(out)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def logits(self, ids, hooks=()):
        with self.hooked(hooks):
            return self.model(torch.tensor([ids]), use_cache=False).logits[0]


class Reference:
    """A dictionary in float64, by the formulas of docs/features.md."""

    def __init__(self, cfg, tensors):
        self.cfg, self.w = cfg, {key: value.double() for key, value in tensors.items()}
        meta = cfg["metadata"]
        self.site_in, self.head = meta["hook_name"], meta.get("hook_head_index")
        self.site = meta.get("hook_name_out") or self.site_in
        self.is_transcoder = "transcoder" in cfg["architecture"]
        self.is_centered = meta.get("model_from_pretrained_kwargs", {}).get("center_writing_weights", False)

    def scaled(self, x):
        if self.is_centered:
            mean = x.mean(-1, keepdim=True)
            z, undo = self.normalized(x - mean)
            return z, lambda r: undo(r) + mean
        return self.normalized(x)

    def normalized(self, x):
        kind, n = self.cfg["normalize_activations"], x.shape[-1]
        if kind == "layer_norm":
            mean = x.mean(-1, keepdim=True)
            s = (x - mean).std(-1, keepdim=True)
            return (x - mean) / (s + 1e-5), lambda r: r * s + mean
        if kind == "constant_norm_rescale":
            c = n ** 0.5 / x.norm(dim=-1, keepdim=True)
            return c * x, lambda r: r / c
        return x, lambda r: r

    def encode(self, x):
        w, cfg = self.w, self.cfg
        z, undo = self.scaled(x)
        if cfg["apply_b_dec_to_input"] and not self.is_transcoder:
            z = z - w["b_dec"]
        kind = cfg["architecture"]
        if kind == "gated":
            q = z @ w["W_enc"]
            p = z @ (w["W_enc"] * w["r_mag"].exp()) + w["b_mag"]
            margin = torch.minimum((q + w["b_gate"]).abs(), p.abs())
            return p, torch.relu(p) * (q + w["b_gate"] > 0), undo, margin
        p = z @ w["W_enc"] + w["b_enc"]
        if "topk" in kind and "batch" not in kind:
            norm = w["W_dec"].norm(dim=-1) if cfg.get("rescale_acts_by_decoder_norm") else torch.ones(p.shape[-1])
            key = p * norm
            order = key.abs() if kind == "abstopk" else key
            top = order.topk(cfg["k"], dim=-1)
            kept = torch.zeros_like(p, dtype=torch.bool).scatter_(-1, top.indices, True)
            a = torch.where(kept, key if kind == "abstopk" else torch.relu(key), 0)
            edge = order.sort(dim=-1, descending=True).values
            between = (edge[..., cfg["k"] - 1: cfg["k"]] - edge[..., cfg["k"]: cfg["k"] + 1]).expand_as(p)
            return p, a, undo, torch.minimum(between, key.abs())
        threshold = w.get("threshold", w.get("topk_threshold", torch.zeros(p.shape[-1])))
        key = p * w["W_dec"].norm(dim=-1) if cfg.get("rescale_acts_by_decoder_norm") else p
        return p, torch.relu(key) * (key > threshold), undo, (key - threshold).abs()

    def decode(self, a):
        w = self.w
        if self.cfg.get("rescale_acts_by_decoder_norm"):
            a = a / w["W_dec"].norm(dim=-1)
        if "scaling_factor" in w:
            a = a * w["scaling_factor"]
        return a @ w["W_dec"] + w["b_dec"]

    def parts(self, x, y):
        p, a, undo, margin = self.encode(x)
        r = self.decode(a)
        full = r if self.is_transcoder else undo(r)
        if "W_skip" in self.w:
            full = full + x @ self.w["W_skip"].T
        return {"p": p, "a": a, "r": r, "full": full, "error": y - full, "undo": undo, "margin": margin}

    def of(self, value):
        return value if self.head is None else value.unflatten(-1, (4, -1))[..., self.head, :]

    def into(self, value, part):
        if self.head is None:
            return part
        heads = value.unflatten(-1, (4, -1)).clone()
        heads[..., self.head, :] = part
        return heads.flatten(-2)

    def hooks(self, keep, change=None, replaces=False):
        """Hooks of a run: change(a) writes activations."""
        seen = {}

        def read(value):
            seen["x"] = self.of(value)
            return value

        def write(value):
            y = self.of(value)
            x = y if not self.is_transcoder else seen["x"]
            own = self.parts(x, y)
            keep.update(own, x=x, y=y)
            out = y
            a = own["a"] if change is None else change(own["a"])
            keep["changed"] = a
            if replaces or change is not None:
                r = self.decode(a)
                full = r if self.is_transcoder else own["undo"](r)
                if "W_skip" in self.w:
                    full = full + x @ self.w["W_skip"].T
                out = full if replaces else y + (full - own["full"])
            return self.into(value, out)

        return ([(self.site_in, read)] if self.is_transcoder else []) + [(self.site, write)]


def make_dictionary(path, architecture, site, d_in, d_out=None, site_out=None, head=None, scaled=False, centered=False, **keys):
    os.makedirs(path, exist_ok=True)
    generator = torch.Generator().manual_seed(7)
    n, d_out = 4 * min(d_in, 30) + 3, d_out or d_in

    def numbers(*shape, spread=0.3):
        return torch.randn(*shape, generator=generator) * spread

    tensors = {"W_enc": numbers(d_in, n), "W_dec": numbers(n, d_out), "b_dec": numbers(d_out, spread=0.1)}
    if architecture == "gated":
        tensors |= {"b_gate": numbers(n), "b_mag": numbers(n), "r_mag": numbers(n)}
    else:
        tensors["b_enc"] = numbers(n)
    if "jumprelu" in architecture:
        tensors["threshold"] = numbers(n).abs()
    if "batchtopk" in architecture:
        tensors["topk_threshold"] = torch.tensor(0.4)
    if "skip" in architecture:
        tensors["W_skip"] = numbers(d_out, d_in, spread=0.2)
    if scaled:
        tensors["scaling_factor"] = numbers(n).abs() + 0.5
    cfg = {"architecture": architecture, "d_in": d_in, "d_sae": n, "dtype": "float32", "device": "cpu",
           "apply_b_dec_to_input": site_out is None, "normalize_activations": "none", "reshape_activations": "none",
           "finetuning_scaling_factor": scaled,
           "metadata": {"hook_name": site, "hook_name_out": site_out, "hook_head_index": head,
                        "model_from_pretrained_kwargs": {"center_writing_weights": centered}}, **keys}
    if site_out:
        cfg["d_out"] = d_out
    with open(os.path.join(path, "cfg.json"), "w") as f:
        json.dump(cfg, f)
    save_file(tensors, os.path.join(path, "sae_weights.safetensors"))
    return Reference(cfg, tensors)


class Case:
    def __init__(self, program, model_path, sites, reference, path, options=()):
        self.program, self.model_path, self.sites = program, model_path, sites
        self.reference, self.path, self.options = reference, path, list(options)
        self.worst, self.where = 0.0, ""
        self.out = path + ".out.safetensors"
        self.acts = reference.site + ".hook_sae_acts_post"

    def vitrine(self, command, *arguments):
        done = subprocess.run([self.program, command, self.model_path, "--sae", self.path, "--seed", "1", *self.options,
                               *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{command} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def compare(self, what, got, want, limit=LIMIT, plus_one=True):
        got, want = np.asarray(got, dtype=np.float64), want.detach().numpy()
        if got.shape != want.shape:
            raise RuntimeError(f"{what}: shape {got.shape}, expected {want.shape}")
        difference = np.abs(got - want).max() / ((1 if plus_one else 0) + np.abs(want).max()) * (LIMIT / limit)
        if not difference <= self.worst:
            self.worst, self.where = difference, what

    def traced(self, *arguments):
        self.vitrine("trace", "--ids", ",".join(map(str, IDS)), "--out", self.out, *arguments)
        return load_file(self.out)

    def check(self):
        ref, site = self.reference, self.reference.site
        keep = {}
        self.sites.logits(IDS, ref.hooks(keep))
        got = self.traced(*(word for value in ("acts_pre", "acts_post", "recons", "error")
                            for word in ("--sites", f"*.hook_sae_{value}")))
        acts = got[self.acts].numpy()
        n = len(IDS)
        for name, key in (("acts_pre", "p"), ("acts_post", "a"), ("recons", "r"), ("error", "error")):
            value = got[f"{site}.hook_sae_{name}"].numpy()
            want = keep[key][0]
            self.compare(name, value.reshape(n, -1), want)
        clear = keep["margin"][0].numpy() > MARGIN
        if ((acts != 0) != (keep["a"][0].numpy() != 0))[clear].any():
            self.worst, self.where = float("inf"), "active set"

        def steer(a):
            a = a.clone()
            a[:, 4:, STEERED] += 3
            return a

        def clamp(a):
            a = a.clone()
            a[..., STEERED] = 2.5
            return a

        def ablate(a):
            a = a.clone()
            a[..., 4 * (acts.shape[1] // 8):] = 0
            return a

        for what, text, change in (("steered", f"{self.acts}[4:,{STEERED}]+=3", steer),
                                   ("clamped", f"{self.acts}[:,{STEERED}]=2.5", clamp),
                                   ("ablated", f"{self.acts}[:,{4 * (acts.shape[1] // 8)}:]=0", ablate)):
            want = self.sites.logits(IDS, ref.hooks({}, change))
            self.compare(what, self.traced("--sites", "hook_logits", "--set", text)["hook_logits"], want)
        want = self.sites.logits(IDS, ref.hooks({}, replaces=True))
        self.compare("replaced", self.traced("--sites", "hook_logits", "--sae-use", "replace")["hook_logits"], want)
        self.check_generated()
        self.check_gradients()
        return self.worst

    def check_generated(self):
        def steer(a):
            a = a.clone()
            a[..., STEERED] += 3
            return a

        text = self.vitrine("generate", "--ids", ",".join(map(str, IDS)), "--max-tokens", "24", "--temperature", "0",
                            "--json", "--logprobs", str(VOCAB), "--set", f"{self.acts}[:,{STEERED}]+=3")
        done = json.loads(text)
        ids = done["ids"]
        if len(ids) != 24:
            raise RuntimeError(f"{len(ids)} tokens were generated")
        want = self.sites.logits(IDS + ids, self.reference.hooks({}, steer)).log_softmax(-1)[len(IDS) - 1:-1]
        got = np.full((24, VOCAB), np.nan)
        for row, step in enumerate(done["logprobs"]):
            for other in step["top"]:
                got[row, other["id"]] = other["logprob"]
        self.compare("24 tokens", got, want)

    def check_gradients(self):
        ref, keep = self.reference, {}
        leaf = {}

        def change(a):
            leaf["a"] = a.detach().clone().requires_grad_(True)
            return leaf["a"]

        logits = self.sites.logits(IDS, ref.hooks(keep, change))
        logits[-1, 17].backward()
        got = self.traced("--sites", self.acts, "--of", "#17")
        self.compare("gradients", got[self.acts + "_grad"], leaf["a"].grad[0], GRADIENT_LIMIT, False)


def cases(has_layer_norms):
    resid = "blocks.1.hook_resid_post"
    for architecture in ("standard", "gated", "jumprelu"):
        yield dict(architecture=architecture, site=resid)
    for architecture in ("batchtopk", "matryoshka_batchtopk"):
        for rescales in (False, True):
            yield dict(architecture=architecture, site=resid, rescale_acts_by_decoder_norm=rescales)
    for kind in ("layer_norm", "constant_norm_rescale"):
        for architecture in ("standard", "jumprelu"):
            yield dict(architecture=architecture, site=resid, normalize_activations=kind)
    for architecture in ("topk", "abstopk"):
        for rescales in (False, True):
            yield dict(architecture=architecture, site=resid, k=6, rescale_acts_by_decoder_norm=rescales)
    yield dict(architecture="standard", site=resid, scaled=True)
    if has_layer_norms:
        yield dict(architecture="standard", site=resid, centered=True)
        yield dict(architecture="topk", k=6, site="blocks.1.hook_mlp_out", centered=True)
        yield dict(architecture="standard", site=resid, centered=True, normalize_activations="constant_norm_rescale")
    yield dict(architecture="standard", site="blocks.2.hook_resid_post")
    yield dict(architecture="standard", site="blocks.1.hook_resid_pre")
    yield dict(architecture="topk", site="blocks.1.hook_mlp_out", k=5)
    yield dict(architecture="standard", site="blocks.1.attn.hook_z")
    yield dict(architecture="standard", site="blocks.1.attn.hook_z", head=2)
    for architecture in ("transcoder", "skip_transcoder", "jumprelu_transcoder", "jumprelu_skip_transcoder"):
        yield dict(architecture=architecture, site="blocks.1.ln2.hook_out", site_out="blocks.1.hook_mlp_out")


def width_of(sites, name):
    seen = {}
    sites.logits([1, 2], [(name, lambda v: seen.setdefault("v", v))])
    return seen["v"].shape[-1]


def dequantized(model, path):
    """A model of transformers with the dequantized weights of a GGUF that was made of it."""
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
    tensors = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)["tensors"]
    unknown = model.load_state_dict({key: value.double() for key, value in tensors.items()}, strict=False)
    if unknown.unexpected_keys or set(unknown.missing_keys) - {"lm_head.weight"}:
        raise RuntimeError(str(unknown))
    return model


def run(program, name, folder, wide=False, quantized=""):
    path = os.path.join(folder, name + ("-wide" if wide else ""))
    model = write_model(name, path, wide)
    options = []
    if quantized:
        gguf = f"{path}-{quantized}.gguf"
        subprocess.run([program, "quantize", path, gguf, "--type", quantized], check=True, capture_output=True)
        model, path, options = dequantized(model, gguf), gguf, ["--compute", "f32"]
    sites, worst = Sites(model), 0.0
    for number, keys in enumerate(cases(name == "gpt2")):
        d_in = width_of(sites, keys["site"]) // (4 if keys.get("head") is not None else 1)
        d_out = width_of(sites, keys["site_out"]) if "site_out" in keys else None
        own = os.path.join(folder, f"sae-{number}")
        case = Case(program, path, sites, make_dictionary(own, d_in=d_in, d_out=d_out, **keys), own, options)
        worst = max(worst, case.check())
        label = ", ".join(str(value) for value in keys.values())
        print(f"{name:7} {quantized:7} {label:66} {case.worst:.1e} ({case.where})", flush=True)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("--keep", help="where to write the files, which remain")
    parser.add_argument("--gguf", action="store_true")
    parser.add_argument("--model", action="append", help="only these")
    o = parser.parse_args()
    torch.set_num_threads(1)
    names = o.model or ["gpt2", "gemma2", "gemma3"]
    with contextlib.ExitStack() as stack:
        folder = o.keep or stack.enter_context(tempfile.TemporaryDirectory())
        os.makedirs(folder, exist_ok=True)
        worst = max(run(o.program, name, folder) for name in names)
        for quantized in ("q8_0", "q4_k_m") if o.gguf else ():
            worst = max(worst, *(run(o.program, name, folder, True, quantized) for name in names))
    print(f"largest difference: {worst:.1e}, limit {LIMIT:.0e}")
    sys.exit(0 if worst <= LIMIT else 1)


if __name__ == "__main__":
    main()
