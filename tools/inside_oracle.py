"""Compares `lens`, `attribute` and `heads` with float64 NumPy, from a trace and the weights in the files.

    python tools/inside_oracle.py build/vitrine MODEL…

MODEL is a Hugging Face folder with a decoder, such as those of tests/goldens; other folders are left out. Needs numpy,
safetensors and torch. The text is ids 1, 5, 9, 2, 7, 3, 5, 9. Prints the largest differences, relative to 1 + the largest
value (of attributions: 1 + the sum of the sizes of the terms), and fails above 1e-5.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors import safe_open

IDS = [1, 5, 9, 2, 7, 3, 5, 9]
FINAL_NORMS = ["ln_f", "model.norm", "transformer.ln_f", "gpt_neox.final_layer_norm", "model.final_layernorm"]
EMBEDDINGS = ["wte", "model.embed_tokens", "transformer.wte", "gpt_neox.embed_in", "transformer.word_embeddings"]
HEADS = ["lm_head", "embed_out"]


def run(vitrine, *arguments):
    return json.loads(subprocess.run([vitrine, *arguments, "--json"], check=True, capture_output=True, text=True).stdout)


def tensors(paths):
    all_ = {}
    for path in paths:
        with safe_open(path, framework="pt") as file:
            all_.update({name: file.get_tensor(name).double().numpy() for name in file.keys()})
    return all_


class Model:
    """The last step of a model: final norm, head, scale and softcap."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.config = json.loads((folder / "config.json").read_text())
        weights = tensors(sorted(folder.glob("*.safetensors")))
        first = lambda names, end: next((weights[n + end] for n in names if n + end in weights), None)
        self.weight, self.bias = first(FINAL_NORMS, ".weight"), first(FINAL_NORMS, ".bias")
        embedding = first(EMBEDDINGS, ".weight")
        head = first(HEADS, ".weight")
        self.head = embedding if head is None else head
        self.head_bias = first(HEADS, ".bias")
        c = self.config
        if c["model_type"].startswith("gemma"):
            self.weight = 1 + self.weight
        self.is_layer_norm = self.bias is not None or c["model_type"].startswith("cohere")
        keys = ["rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_epsilon"]
        self.epsilon = next((c[k] for k in keys if k in c), 1e-5)
        self.scale = c["logit_scale"] if "logit_scale" in c else 1 / c.get("logits_scaling", 1)
        self.softcap = c.get("final_logit_softcapping")

    def divisor(self, x):
        centered = x - x.mean(-1, keepdims=True) if self.is_layer_norm else x
        return np.sqrt((centered**2).mean(-1, keepdims=True) + self.epsilon)

    def normed(self, x, divisor):
        """Without the bias."""
        centered = x - x.mean(-1, keepdims=True) if self.is_layer_norm else x
        return centered / divisor * self.weight

    def logits(self, x):
        normed = self.normed(x, self.divisor(x)) + (0 if self.bias is None else self.bias)
        logits = (normed @ self.head.T + (0 if self.head_bias is None else self.head_bias)) * self.scale
        return self.softcap * np.tanh(logits / self.softcap) if self.softcap else logits


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def lens_error(vitrine, folder, model, trace):
    found = run(vitrine, "lens", folder, "--ids", ",".join(map(str, IDS)), "--sublayers", "--top", "3", "--token", "#4")
    worst = 0
    states = [model.logits(trace[name]) for name in found["states"]]
    final = log_softmax(states[-1])
    for cells, logits in zip(found["lens"], states):
        own = log_softmax(logits)
        expected = {
            "entropy": -(np.exp(own) * own).sum(-1),
            "kl": (np.exp(final) * (final - own)).sum(-1),
            "logit": logits[:, 4],
            "logprob": own[:, 4],
        }
        largest = 1 + np.abs(logits).max()
        for t, cell in enumerate(cells):
            values = {**{k: cell[k] for k in ("entropy", "kl")}, **{k: cell["tokens"][0][k] for k in ("logit", "logprob")}}
            worst = max([worst] + [abs(values[k] - expected[k][t]) / largest for k in expected])
            for top in cell["top"]:
                worst = max(worst, abs(top["logit"] - logits[t, top["id"]]) / largest)
    return worst


def attribution_error(vitrine, folder, model, trace):
    found = run(vitrine, "attribute", folder, "--ids", ",".join(map(str, IDS)), "--token", "#4", "--against", "#6", "--position", "6")
    direction = model.head[4] - model.head[6]
    last = max(int(name.split(".")[1]) for name in trace if name.startswith("blocks."))
    divisor = model.divisor(trace[f"blocks.{last}.hook_resid_post"][6])
    size = 1 + sum(abs(term["value"]) for term in found["terms"])
    worst = abs(found["sum"] - found["unembedded"]) / size
    for term in found["terms"]:
        name = term["name"]
        site = {"embed": "hook_embed", "pos_embed": "hook_pos_embed"}.get(name)
        if name.endswith((".attn", ".mlp")):
            site = f"{name.rsplit('.', 1)[0]}.hook_{name.rsplit('.', 1)[1]}_out"
        if site is not None:
            worst = max(worst, abs(term["value"] - model.normed(trace[site][6], divisor) @ direction) / size)
    logits = model.logits(trace[f"blocks.{last}.hook_resid_post"])[6]
    return max(worst, abs(found["logit"] - (logits[4] - logits[6])) / (1 + np.abs(logits).max()))


def heads_error(vitrine, folder, trace):
    worst = 0
    for head in run(vitrine, "heads", folder, "--ids", ",".join(map(str, IDS)))["heads"]:
        p = trace[f"blocks.{head['layer']}.attn.hook_pattern"][head["head"]]
        n = len(IDS)
        pairs = [[s for s in range(t) if IDS[s] == IDS[t]] for t in range(n)]
        with_pairs = [t for t in range(n) if pairs[t]]
        positions = np.arange(n)
        expected = {
            "previous": np.mean([p[t, t - 1] for t in range(1, n)]),
            "first": np.mean(p[1:, 0]),
            "current": np.mean(np.diag(p)),
            "duplicate": np.mean([p[t, pairs[t]].sum() for t in with_pairs]),
            "induction": np.mean([p[t, [s + 1 for s in pairs[t]]].sum() for t in with_pairs]),
            "distance": np.mean((p * (positions[:, None] - positions)).sum(-1)),
            "entropy": np.mean(-(p * np.log(np.where(p > 0, p, 1))).sum(-1)),
        }
        worst = max([worst] + [abs(head[k] - x) / (1 + abs(x)) for k, x in expected.items()])
    return worst


def main():
    vitrine, *folders = sys.argv[1:]
    folders = [f for f in folders if (pathlib.Path(f) / "config.json").exists()]
    failed = False
    for folder in folders:
        model = Model(folder)
        with tempfile.TemporaryDirectory() as temporary:
            path = pathlib.Path(temporary) / "trace.safetensors"
            run(vitrine, "trace", folder, "--ids", ",".join(map(str, IDS)), "--compute", "f32", "--out", str(path))
            trace = tensors([path])
        errors = (lens_error(vitrine, folder, model, trace), attribution_error(vitrine, folder, model, trace), heads_error(vitrine, folder, trace))
        failed |= max(errors) > 1e-5
        print(f"{pathlib.Path(folder).name:24} lens {errors[0]:.1e}  attribution {errors[1]:.1e}  heads {errors[2]:.1e}")
    sys.exit(1 if failed else 0)


main()
