"""Writes docs/walkthrough.md: one prediction of the default model, from text to next token, with the values of a real run.

This script recomputes every formula of the page in double precision and compares the results with vitrine's values
before it writes anything. It needs only Python's standard library.

    python3 tools/make_walkthrough.py build/vitrine            writes the page
    python3 tools/make_walkthrough.py build/vitrine --check    fails if the page is out of date
"""

import argparse
import json
import math
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "walkthrough.md"
MODEL = ROOT / "models" / "default"
PROMPT = "Once upon a time, there was a little girl named"
TOLERANCE = 2e-5  # relative to the largest value compared: float32 against double


def read_safetensors(path: Path) -> dict[str, "Values"]:
    """Every tensor of a file, F32 or BF16, as floats."""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "F32":
            flat = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
        else:  # the upper half of a float32
            halves = struct.unpack(f"<{(end - begin) // 2}H", data[begin:end])
            flat = struct.unpack(f"<{len(halves)}f", struct.pack(f"<{len(halves)}I", *(h << 16 for h in halves)))
        tensors[name] = Values(flat, entry["shape"])
    return tensors


class Values:
    """A tensor: values[i, j] is a number or, with fewer indices than axes, a list of them."""

    def __init__(self, flat, shape):
        self.flat, self.shape = flat, shape

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        at, size = 0, len(self.flat)
        for i, n in zip(index, self.shape):
            size //= n
            at += (i % n) * size
        return self.flat[at] if len(index) == len(self.shape) else list(self.flat[at : at + size])


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


def rms(x, eps=0.0):
    return math.sqrt(dot(x, x) / len(x) + eps)


def cosine(a, b):
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def softcap(x, cap):
    return cap * math.tanh(x / cap)


def softmax(scores):
    top = max(scores)
    exps = [math.exp(s - top) for s in scores]
    return [e / math.fsum(exps) for e in exps]


def gelu(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def norm(x, weight, eps):
    divisor = rms(x, eps)
    return [v / divisor * (1 + w) for v, w in zip(x, weight)]


def same(what, ours, theirs):
    """Compares vitrine's values with those of the formula."""
    scale = max(1.0, max(abs(v) for v in theirs))
    worst = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    if not worst <= TOLERANCE * scale:
        raise SystemExit(f"make_walkthrough: {what}: the formula gives {theirs[:4]}…, vitrine {ours[:4]}…")


def numbers(values, count=4):
    shown = ", ".join(f"{v:.4f}".replace("-", "−") for v in values[:count])
    return f"[{shown}{', …' if len(values) > count else ''}]"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows])


def code(piece):
    """A piece of byte-level BPE as text: Ġ means a space, Ċ a newline."""
    return "`" + piece.replace("Ġ", " ").replace("Ċ", "\\n").replace("|", "\\|") + "`"


class Run:
    """The values of one run on the prompt, and the model's parameters."""

    def __init__(self, vitrine):
        self.vitrine = vitrine
        self.config = json.loads((MODEL / "config.json").read_text())
        self.weights = read_safetensors(MODEL / "model.safetensors")
        predicted = self.json("predict", PROMPT, "--top", "10")
        self.prefixes = predicted["tokens"]
        self.ids = [token["id"] for token in self.prefixes]
        self.pieces = [token["piece"] for token in self.prefixes]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "values.safetensors"
            self.command("trace", PROMPT, "--out", str(path))
            self.sites = read_safetensors(path)

    def command(self, name, *arguments):
        done = subprocess.run([self.vitrine, name, str(MODEL), *arguments, "--compute", "f32"], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"make_walkthrough: vitrine {name}: {done.stderr.strip()}")
        return done.stdout

    def json(self, name, *arguments):
        return json.loads(self.command(name, *arguments, "--json"))

    def weight(self, layer, name):
        return self.weights[f"model.layers.{layer}.{name}.weight"]

    def site(self, layer, name):
        return self.sites[f"blocks.{layer}.{name}"]

    def product(self, weight, x):
        return [dot(weight[row], x) for row in range(weight.shape[0])]


def text_to_ids(run):
    rows = [(i, token, code(piece)) for i, (token, piece) in enumerate(zip(run.ids, run.pieces))]
    return f"""## 1. Text becomes ids

The tokenizer splits the text into words. Within each word it merges pairs of adjacent bytes, beginning with the pair that was
most frequent in its training text, and looks up the id of each resulting piece. A space belongs to the word after it.
(`src/tokenizer/pre_tokenizer.cpp`, `bpe.cpp`, `merge_by_heap.h`; try `vitrine tokenize models/default "…"`)

{table(("position", "id", "piece"), rows)}

T = {len(run.ids)} tokens. From here on the model computes with numbers only."""


def embedding(run):
    d = run.config["hidden_size"]
    last = len(run.ids) - 1
    table_row = run.weights["model.embed_tokens.weight"][run.ids[last]]
    scale = math.sqrt(d)
    same("embedding", run.sites["hook_embed"][last], [scale * v for v in table_row])
    words = [" girl", " boy", " mom", " dog", " cat", " big", " little", " ran", " jumped"]
    ids = {word: run.json("tokenize", word, "--no-special")["ids"] for word in words}
    words = [word for word in words if len(ids[word]) == 1]
    rows_of = {word: run.weights["model.embed_tokens.weight"][ids[word][0]] for word in words}
    grid = [[f"**{a.strip()}**"] + [f"{cosine(rows_of[a], rows_of[b]):.2f}".replace("-", "−") for b in words] for a in words]
    return f"""## 2. Ids become vectors

Each id selects a row of the embedding, a learned matrix of {run.config["vocab_size"]} × {d}. The row is multiplied by √d.
(`src/ops/embed.cpp`; site `hook_embed`)

    x[t] = √d · E[id[t]]                                       [T, {d}]

For {code(run.pieces[last])}, id {run.ids[last]}: √{d} · {numbers(table_row)} = {numbers(run.sites["hook_embed"][last])}

The direction of the vector encodes the meaning of the token. These are cosines between rows of the embedding
(`vitrine embed` compares other words, and finds nearest tokens and analogies):

{table([""] + [w.strip() for w in words], grid)}"""


def first_norm(run):
    eps = run.config["rms_norm_eps"]
    last = len(run.ids) - 1
    x, out = run.site(0, "hook_resid_pre")[last], run.site(0, "ln1.hook_out")[last]
    same("ln1", out, norm(x, run.weight(0, "input_layernorm").flat, eps))
    return f"""## 3. A block begins: RMSNorm

The residual stream x passes through {run.config["num_hidden_layers"]} blocks. Each block reads x and adds to it twice: attention first, then the MLP. Both
read a normalized x, scaled to a root mean square of about 1. (`src/model/block.cpp` is the whole block;
`src/ops/norm.cpp`; sites `blocks.0.ln1.*`)

    norm(x) = x / √(mean(x²) + eps) · (1 + w)                  eps = {eps:g}

Last token, block 0: √(mean(x²) + eps) = {run.site(0, "ln1.hook_scale")[last, 0]:.4f}; x = {numbers(x)} becomes {numbers(out)}."""


def projections(run):
    c = run.config
    last = len(run.ids) - 1
    x = run.site(0, "ln1.hook_out")[last]
    for name, site in (("q_proj", "hook_q"), ("k_proj", "hook_k"), ("v_proj", "hook_v")):
        ours = run.site(0, f"attn.{site}")[last]
        same(site, ours, run.product(run.weight(0, f"self_attn.{name}"), x))
    heads, kv, dh = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    return f"""## 4. Queries, keys, values

Each position has a query (what it looks for), a key (what it offers) and a value (what it passes on).
(`src/model/mixers/attention/attention.cpp`, `src/ops/linear.cpp`)

    q = norm(x) · W_qᵀ   [T, {heads}, {dh}]      k = norm(x) · W_kᵀ   [T, {kv}, {dh}]      v = norm(x) · W_vᵀ   [T, {kv}, {dh}]

There are {heads} query heads and {kv} key/value heads; each key/value head serves {heads // kv} query heads. Last token, head 0: q = {numbers(run.site(0, "attn.hook_q")[last, 0])},
k = {numbers(run.site(0, "attn.hook_k")[last, 0])}, v = {numbers(run.site(0, "attn.hook_v")[last, 0])}."""


def rotation(run):
    c = run.config
    half, base, last = c["head_dim"] // 2, c["rope_theta"], len(run.ids) - 1
    q, rotated = run.site(0, "attn.hook_q")[last, 0], run.site(0, "attn.hook_rot_q")[last, 0]
    angles = [last * base ** (-2 * i / c["head_dim"]) for i in range(half)]
    first = [q[i] * math.cos(a) - q[i + half] * math.sin(a) for i, a in enumerate(angles)]
    second = [q[i + half] * math.cos(a) + q[i] * math.sin(a) for i, a in enumerate(angles)]
    same("rope", rotated, first + second)
    waves = [(i, f"{base ** (-2 * i / c['head_dim']):.5f}", f"{2 * math.pi * base ** (2 * i / c['head_dim']):,.0f}")
             for i in (0, 1, half // 4, half // 2, half - 1)]
    i = 1
    return f"""## 5. Positions: rotary embedding

Elements i and i + {half} of a head form a point in the plane. RoPE rotates it by position · base^(−2i/{c["head_dim"]}), with base {base:g}. The product of a
rotated query and a rotated key then depends on the distance between their positions. (`src/ops/rope.cpp`; sites `hook_rot_q`,
`hook_rot_k`)

    x' = x cos a − y sin a,   y' = y cos a + x sin a

Last token (position {last}), head 0, pair {i}: a = {angles[i]:.4f}; ({q[i]:.4f}, {q[i + half]:.4f}) → ({rotated[i]:.4f}, {rotated[i + half]:.4f}).

{table(("pair", "radians per position", "positions per rotation"), waves)}

Over the whole context of {c["max_position_embeddings"]} positions the last pairs hardly rotate.""".replace("(-", "(−").replace(" -", " −")


def attention(run):
    c = run.config
    last, head, cap = len(run.ids) - 1, 0, c["attn_logit_softcapping"]
    scale = 1 / math.sqrt(c["query_pre_attn_scalar"])
    q = run.site(0, "attn.hook_rot_q")[last, head]
    keys, values = run.site(0, "attn.hook_rot_k"), run.site(0, "attn.hook_v")
    raw = [scale * dot(q, keys[s, 0]) for s in range(last + 1)]
    capped = [softcap(s, cap) for s in raw]
    pattern = softmax(capped)
    z = [math.fsum(p * values[s, 0, i] for s, p in enumerate(pattern)) for i in range(c["head_dim"])]
    same("scores", run.site(0, "attn.hook_scores_raw")[head, last], raw)
    same("softcap", run.site(0, "attn.hook_attn_scores")[head, last], capped)
    same("pattern", run.site(0, "attn.hook_pattern")[head, last], pattern)
    same("z", run.site(0, "attn.hook_z")[last, head], z)
    rows = [(code(run.pieces[s]), f"{raw[s]:.3f}", f"{capped[s]:.3f}", f"{100 * pattern[s]:.1f} %") for s in range(last + 1)]
    return f"""## 6. Attention

A score measures how well a query matches a key. A token attends only to itself and earlier tokens; in every second block, it
attends only to the last {c["sliding_window"]} tokens (this text is shorter). (`src/ops/attend.cpp`)

    score = q · k / √{c["query_pre_attn_scalar"]}                      `hook_scores_raw`    [H, T, S]
    capped = {cap:g} · tanh(score / {cap:g})                   `hook_attn_scores`
    p = exp(capped − max) / Σ exp(capped − max)         `hook_pattern`
    z = Σ p · v                                         `hook_z`             [T, H, {c["head_dim"]}]

Block 0, head {head}, query of {code(run.pieces[last])}:

{table(("key of", "score", "capped", "p"), [[x.replace("-", "−") if isinstance(x, str) and not x.startswith("`") else x for x in row] for row in rows])}

z = {numbers(run.site(0, "attn.hook_z")[last, head])}"""


def output(run):
    c, last = run.config, len(run.ids) - 1
    z = run.site(0, "attn.hook_z")[last]
    out = run.product(run.weight(0, "self_attn.o_proj"), z)
    same("o", run.site(0, "attn.hook_out")[last], out)
    added = norm(out, run.weight(0, "post_attention_layernorm").flat, c["rms_norm_eps"])
    same("ln1_post", run.site(0, "hook_attn_out")[last], added)
    x = run.site(0, "hook_resid_pre")[last]
    same("resid_mid", run.site(0, "hook_resid_mid")[last], [a + b for a, b in zip(x, added)])
    return f"""## 7. Back to the residual stream

The concatenated z of all heads is projected, normalized again, and added to x. (`src/model/mixers/attention/attention.cpp`, `block.cpp`)

    x ← x + norm(z · W_oᵀ)

{numbers(x)} + {numbers(added)} = {numbers(run.site(0, "hook_resid_mid")[last])}"""


def mlp(run):
    c, last = run.config, len(run.ids) - 1
    x = run.site(0, "hook_resid_mid")[last]
    read = norm(x, run.weight(0, "pre_feedforward_layernorm").flat, c["rms_norm_eps"])
    gate = run.product(run.weight(0, "mlp.gate_proj"), read)
    up = run.product(run.weight(0, "mlp.up_proj"), read)
    post = [gelu(g) * u for g, u in zip(gate, up)]
    out = run.product(run.weight(0, "mlp.down_proj"), post)
    added = norm(out, run.weight(0, "post_feedforward_layernorm").flat, c["rms_norm_eps"])
    for site, theirs in (("mlp.hook_pre", gate), ("mlp.hook_pre_linear", up), ("mlp.hook_post", post), ("mlp.hook_out", out),
                         ("hook_mlp_out", added)):
        same(site, run.site(0, site)[last], theirs)
    same("resid_post", run.site(0, "hook_resid_post")[last], [a + b for a, b in zip(x, added)])
    best = max(range(len(post)), key=lambda i: abs(post[i]))
    return f"""## 8. The MLP

The MLP processes each token separately. It has {c["intermediate_size"]} units; for each, one matrix computes a gate and another the value that the gate
multiplies. (`src/model/mixers/ffn/ffn.cpp`, `src/ops/elementwise.cpp`; sites `blocks.0.mlp.*`)

    gate = norm(x) · W_gateᵀ     up = norm(x) · W_upᵀ           [T, {c["intermediate_size"]}]
    gelu(g) = g/2 · (1 + tanh(√(2/π) (g + 0.044715 g³)))
    x ← x + norm((gelu(gate) · up) · W_downᵀ)

Last token, block 0: the largest activation is that of unit {best}: gate {gate[best]:.4f}, up {up[best]:.4f}, gelu(gate) · up = {post[best]:.4f}.
{sum(abs(p) < 0.01 for p in post)} of {len(post)} activations are close to zero (below 0.01).""".replace(" -", " −")


def layers(run):
    n, last = run.config["num_hidden_layers"], len(run.ids) - 1
    rows = []
    for layer in range(n):
        def share(stream, update):
            s, r = rms(run.site(layer, stream)[last]), rms(run.site(layer, update)[last])
            return r / math.sqrt(r * r + s * s)

        heads = []
        for head in range(run.config["num_attention_heads"]):
            pattern = run.site(layer, "attn.hook_pattern")[head, last]
            spread = math.exp(-math.fsum(p * math.log(p) for p in pattern if p > 0))
            most = max(range(len(pattern)), key=pattern.__getitem__)
            heads.append((spread, f"{code(run.pieces[most])} {100 * pattern[most]:.0f} %"))
        heads.sort(reverse=True)
        rows.append((layer, f"{rms(run.site(layer, 'hook_resid_pre')[last]):.2f}",
                     f"{share('hook_resid_pre', 'hook_attn_out'):.2f}", f"{share('hook_resid_mid', 'hook_mlp_out'):.2f}",
                     f"{heads[0][0]:.1f} … {heads[-1][0]:.1f}", heads[-1][1]))
    return f"""## 9. All blocks

All {n} blocks compute the same formulas, each with its own weights. The table shows for the last token: the root mean square s of x;
the relative size of what attention and the MLP add, r / √(r² + s²), where r is the root mean square of the addition; the
effective number of positions that a head attends to (the exponential of the entropy of its pattern), for the least and the
most focused head; and the token that the most focused head attends to most.

{table(("block", "rms of x", "attention adds", "MLP adds", "positions per head", "most focused head"), rows)}"""


def final_norm(run):
    eps, last = run.config["rms_norm_eps"], len(run.ids) - 1
    final = run.sites[f"blocks.{run.config['num_hidden_layers'] - 1}.hook_resid_post"]
    same("ln_final", run.sites["ln_final.hook_out"][last], norm(final[last], run.weights["model.norm.weight"].flat, eps))
    rows = [(code(run.pieces[t]), f"{rms(final[t]):.2f}", f"{rms(run.sites['ln_final.hook_out'][t]):.2f}")
            for t in range(last + 1)]
    return f"""## 10. The final norm

The root mean square of the residual stream differs from token to token; after the final norm it hardly does.
(`src/model/model.cpp`; sites `ln_final.*`)

{table(("token", "rms before", "rms after"), rows)}"""


def logits(run):
    c, last = run.config, len(run.ids) - 1
    h = run.sites["ln_final.hook_out"][last]
    raw = run.product(run.weights["model.embed_tokens.weight"], h)
    cap = c["final_logit_softcapping"]
    capped = [softcap(v, cap) for v in raw]
    same("unembed", run.sites["unembed.hook_out"][last], raw)
    same("logits", run.sites["hook_logits"][last], capped)
    probabilities = softmax(capped)
    top = run.prefixes[last]["top"]
    same("probabilities", [t["prob"] for t in top], [probabilities[t["id"]] for t in top])
    rows = [(code(t["piece"]), t["id"], f"{raw[t['id']]:.3f}", f"{capped[t['id']]:.3f}", f"{100 * t['prob']:.1f} %") for t in top]
    e = run.weights["model.embed_tokens.weight"][top[0]["id"]]
    terms = " + ".join(f"({a:.3f} · {b:.3f})".replace("-", "−") for a, b in zip(h[:3], e[:3]))
    return f"""## 11. Logits and probabilities

The head reuses the embedding, a matrix of {c["vocab_size"]} rows. The logit of a token is the dot product of the final vector h and the token's row,
with a soft cap. (`src/model/model.cpp`: `head`, `unembed`; sites `unembed.*`, `hook_logits`)

    logit = {cap:g} · tanh((h · E[token]) / {cap:g})             [T, {c["vocab_size"]}]
    p = exp(logit) / Σ exp(logit)

For {code(top[0]["piece"])}: h · E = {terms} + … = {raw[top[0]["id"]]:.4f}, capped {capped[top[0]["id"]]:.4f}.

{table(("token", "id", "h · E", "logit", "p"), rows)}"""


def every_prefix(run):
    rows = [(code(token["piece"]), ", ".join(f"{code(t['piece'])} {100 * t['prob']:.0f} %" for t in token["top"][:4]))
            for token in run.prefixes]
    return f"""## 12. Predictions after every prefix

One pass over {len(run.ids)} tokens predicts the next token after each of them, so training learns from every position of a text at once.
(`src/generate/score.cpp`; `vitrine predict`)

{table(("after", "predicted next"), rows)}"""


def choice(run):
    greedy = run.json("generate", PROMPT, "--greedy", "--max-tokens", "24")
    drawn = run.json("generate", PROMPT, "--temperature", "0.8", "--seed", "1", "--max-tokens", "24")
    quote = lambda text: "> " + " ".join(text.split())
    return f"""## 13. Choosing a token, and the next step

Greedy decoding takes the most likely token. Sampling with temperature τ divides the logits by τ and draws from the softmax. The
chosen id is the next input. The KV cache (`src/cache/kv_cache.cpp`) keeps the keys and values of all earlier tokens, so a decoding
step computes a single row. (`src/generate/sampler.cpp`, `generator.cpp`)

`vitrine generate --greedy`:

{quote(PROMPT + greedy["text"])}

`vitrine generate --temperature 0.8 --seed 1`:

{quote(PROMPT + drawn["text"])}

For how the model was trained, see [models/default](../models/default/README.md) and [training.md](training.md); for the code,
see [architecture.md](architecture.md)."""


def page(run):
    c = run.config
    parameters = sum(len(t.flat) for t in run.weights.values())
    head = f"""# One prediction, step by step

<!-- Generated by tools/make_walkthrough.py, which recomputes every formula; a test checks it. -->

> {PROMPT} …

Which token comes next? This page follows the computation through the default model, a small Gemma 2 with {parameters / 1e6:.2f} million parameters,
{c["num_hidden_layers"]} blocks and d = {c["hidden_size"]}, trained on children's stories and a novel ([model card](../models/default/README.md)). All values are from a real run;
`vitrine trace "{PROMPT[:16]}…" --compute f32 --out values.safetensors` writes them, under the names in [sites.md](sites.md).
Products are those of float32 numbers here, as in the formulas; without `--compute f32`, the model's bf16 weights are multiplied by
activations rounded to bfloat16."""
    parts = (text_to_ids, embedding, first_norm, projections, rotation, attention, output, mlp, layers, final_norm, logits,
             every_prefix, choice)
    return "\n\n".join([head] + [part(run) for part in parts]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vitrine")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    text = page(Run(arguments.vitrine))
    if not arguments.check:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        sys.exit(f"make_walkthrough: {PAGE.name} is out of date; run tools/make_walkthrough.py")


if __name__ == "__main__":
    main()
