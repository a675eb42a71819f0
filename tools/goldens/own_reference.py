"""A reference for model_type "vitrine" in PyTorch: every key of the config, every site, written for clarity.

Layers of each kind: attention with its many options, RNN, GRU, LSTM (torch.nn's formulas, step by step) and dense;
one stack or an encoder and a decoder. docs/training.md and src/checkpoint/families/vitrine.cpp list the keys.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Config = dict[str, Any]
ACTIVATIONS = {
    "silu": functional.silu,
    "relu": functional.relu,
    "tanh": torch.tanh,
    "gelu": functional.gelu,
    "gelu_pytorch_tanh": lambda x: functional.gelu(x, approximate="tanh"),
}
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
NOT_INHERITED = ("encoder", "shared_embedding", "attention", "d_attention", "bridge")


def encoder_of(c: Config) -> Config | None:
    """The encoder's keys, with those that it inherits."""
    if "encoder" not in c:
        return None
    return {key: value for key, value in c.items() if key not in NOT_INHERITED} | c["encoder"]


def kind_of(c: Config) -> str:
    return c.get("layers", "attention")


def d_hidden(c: Config) -> int:
    return c.get("d_hidden", c["d_model"])


def width_of(c: Config) -> int:
    """Elements of a row after the last layer."""
    if kind_of(c) == "attention":
        return c["d_model"]
    return d_hidden(c) * (2 if kind_of(c) in GATES and c.get("bidirectional") else 1)


class OwnModel:
    """The parameters of a config, drawn from `seed`, and its forward. Sites are kept in `sites`."""

    def __init__(self, c: Config, seed: int = 0, dtype: torch.dtype = torch.float64) -> None:
        self.c, self.encoder = c, encoder_of(c)
        self.params: dict[str, Tensor] = {}
        self.sites: dict[str, Tensor] = {}
        self._random = torch.Generator().manual_seed(seed)
        self._dtype = dtype
        self._build()

    def _add(self, name: str, *shape: int, mean: float = 0.0, std: float | None = None) -> None:
        spread = std if std is not None else 1.2 / math.sqrt(shape[-1]) if len(shape) > 1 else 0.3
        values = mean + spread * torch.randn(*shape, generator=self._random)
        self.params[name] = values.float().to(self._dtype).requires_grad_()

    def _linear(self, name: str, out: int, wide: int, bias: bool) -> None:
        self._add(name + ".weight", out, wide)
        if bias:
            self._add(name + ".bias", out)

    def _norm(self, c: Config, name: str, *shape: int) -> None:
        self._add(name + ".weight", *shape, mean=1 - c.get("norm_weight_offset", 0), std=0.3)
        if c.get("norm_bias"):
            self._add(name + ".bias", *shape, std=0.3)

    def _build(self) -> None:
        c, d = self.c, self.c["d_model"]
        if self.encoder is None:
            self._add("embed.weight", c["vocab_size"], c.get("embedding_width", d), std=0.6)
        elif c.get("shared_embedding", True):
            self._add("embed.weight", c["vocab_size"], d, std=0.6)
        else:
            self._add("encoder.embed.weight", self.encoder["vocab_size"], self.encoder["d_model"], std=0.6)
            self._add("decoder.embed.weight", c["vocab_size"], d, std=0.6)
        if self.encoder is not None:
            self._build_stack(self.encoder, "encoder.", 0)
        self._build_stack(c, "decoder." if self.encoder else "", width_of(self.encoder) if self.encoder else 0)
        width = width_of(c)
        if c.get("head_transform"):
            self._linear("head.dense", width, width, True)
            self._norm(c, "head.ln", width)
        if "head_width" in c:
            self._linear("head.proj", c["head_width"], width, False)
        if not c.get("tied"):
            self._add("unembed.weight", c["vocab_size"], c.get("head_width", width))
        if c.get("head_bias"):
            self._add("unembed.bias", c["vocab_size"])

    def _build_stack(self, c: Config, prefix: str, d_source: int) -> None:
        d, kind = c["d_model"], kind_of(c)
        positions = c.get("positions", "rope" if kind == "attention" else "none")
        if "embedding_width" in c:
            self._linear(prefix + "embed_proj", d, c["embedding_width"], False)
        if positions == "learned":
            self._add(prefix + "pos_embed.weight", c["max_seq_len"] + c.get("first_position", 0), d, std=0.4)
        if c.get("n_types"):
            self._add(prefix + "type_embed.weight", c["n_types"], d, std=0.4)
        if c.get("embedding_norm"):
            self._norm(c, prefix + "ln_embed", d)
        if positions == "relative":
            self._add(prefix + "rel_bias.weight", c.get("relative_buckets", 32), c["n_heads"], std=0.7)
        for layer in range(c["n_layers"]):
            if kind == "attention":
                at = prefix or "blocks."
                self._build_block(c, f"{at}{layer}.", d_source if prefix == "decoder." else 0)
            elif kind == "dense":
                wide = d * c.get("context", 1) if layer == 0 else d_hidden(c)
                self._linear(f"{prefix}dense.{layer}", d_hidden(c), wide, True)
            else:
                self._build_cells(c, prefix, layer, d_source if prefix == "decoder." else 0)
        after_residual = c.get("norm_place") == "after_residual"
        if c.get("final_norm", kind == "attention" and not after_residual):
            self._norm(c, prefix + "ln_final", width_of(c))

    def _build_cells(self, c: Config, prefix: str, layer: int, d_source: int) -> None:
        h, rows = d_hidden(c), GATES[kind_of(c)] * d_hidden(c)
        directions = 2 if c.get("bidirectional") else 1
        wide = c["d_model"] if layer == 0 else h * directions
        if layer == 0 and d_source and c.get("attention"):
            a = c.get("d_attention", h)
            self._linear(prefix + "attn.query", a, h, False)
            self._linear(prefix + "attn.key", a, d_source, False)
            self._linear(prefix + "attn.v", 1, a, False)
            wide += d_source
        if d_source and c.get("bridge") == "linear":
            states = width_of(self.encoder) if self.encoder else 0
            for name in ["bridge", "bridge_c"][: 2 if kind_of(c) == "lstm" else 1]:
                self._linear(f"{prefix}{name}.{layer}", h, states, True)
        for suffix in ["", "_reverse"][:directions]:
            self._add(f"{prefix}rnn.weight_ih_l{layer}{suffix}", rows, wide)
            self._add(f"{prefix}rnn.weight_hh_l{layer}{suffix}", rows, h)
            self._add(f"{prefix}rnn.bias_ih_l{layer}{suffix}", rows)
            self._add(f"{prefix}rnn.bias_hh_l{layer}{suffix}", rows)

    def _build_block(self, c: Config, at: str, d_source: int) -> None:
        d, place = c["d_model"], c.get("norm_place", "before")
        dh = c.get("head_dim", d // c["n_heads"])
        n_kv = c.get("n_kv_heads", c["n_heads"])
        for ln, name, d_keys in [("ln1", "attn", d)] + ([("ln2", "cross_attn", d_source)] if d_source else []):
            self._build_norms(c, at + ln, place)
            for w, out, wide in (("wq", c["n_heads"], d), ("wk", n_kv, d_keys), ("wv", n_kv, d_keys)):
                self._linear(f"{at}{name}.{w}", out * dh, wide, c.get("qkv_bias", False))
            self._linear(f"{at}{name}.wo", d, c["n_heads"] * dh, c.get("out_bias", False))
            over = c.get("qk_norm", "none")
            if over != "none":
                for norm, n in (("q_norm", c["n_heads"]), ("k_norm", n_kv)):
                    shape = {"head": (dh,), "head_own_weight": (n, dh), "all_heads": (n * dh,)}[over]
                    self._norm(c, f"{at}{name}.{norm}", *shape)
        self._build_norms(c, at + ("ln3" if d_source else "ln2"), place)
        parts = ["w_gate", "w_up"] if c.get("gated", True) else ["w_up"]
        names = [at + "mlp."]
        if "n_experts" in c:
            self._linear(at + "mlp.router", c["n_experts"], d, False)
            names = [f"{at}mlp.experts.{e}." for e in range(c["n_experts"])]
            if c.get("d_ff_shared"):
                names.append(at + "mlp.shared.")
                self._linear(at + "mlp.shared_gate", 1, d, False)
        for name in names:
            d_ff = c["d_ff_shared"] if name.endswith("shared.") else c["d_ff"]
            for part in parts:
                self._linear(name + part, d_ff, d, c.get("ffn_bias", False))
            self._linear(name + "w_down", d, d_ff, c.get("ffn_bias", False))

    def _build_norms(self, c: Config, ln: str, place: str) -> None:
        if place != "after":
            self._norm(c, ln, c["d_model"])
        if place in ("after", "both"):
            self._norm(c, ln + "_post", c["d_model"])

    # The forward

    def forward(self, ids: Tensor, target: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        """Logits of `ids`; of `target` if the model has an encoder, which then reads `ids`."""
        self.sites = {}
        c = self.c
        own, shared = "decoder." if self.encoder else "", self.params.get("embed.weight")
        table = shared if shared is not None else self.params[own + "embed.weight"]
        if self.encoder is None:
            x = self._stack(c, "", table, ids, types)
        else:
            assert target is not None
            source_table = shared if shared is not None else self.params["encoder.embed.weight"]
            memory = self._stack(self.encoder, "encoder.", source_table, ids, types)
            x = self._stack(c, "decoder.", table, target, None, memory)
        if c.get("head_transform"):
            pre = self._see("head.hook_pre", self._apply("head.dense", x))
            x = self._normed(c, "head.ln", self._see("head.hook_post", ACTIVATIONS[c.get("activation", "silu")](pre)))
        if "head_width" in c:
            x = self._apply("head.proj", x)
        x = self._see("unembed.hook_in", x)
        weight = table if c.get("tied") else self.params["unembed.weight"]
        logits = self._see("unembed.hook_out", functional.linear(x, weight, self.params.get("unembed.bias")))
        logits = logits * c.get("logit_scale", 1)
        if cap := c.get("logit_softcap"):
            logits = cap * torch.tanh(logits / cap)
        return self._see("hook_logits", logits)

    def _see(self, site: str, value: Tensor) -> Tensor:
        self.sites[site] = value
        return value

    def _apply(self, name: str, x: Tensor) -> Tensor:
        return functional.linear(x, self.params[name + ".weight"], self.params.get(name + ".bias"))

    def _normed(self, c: Config, name: str, x: Tensor) -> Tensor:
        """x `[T, d]`, or `[T, n, d]` with one weight for all n or one for each."""
        center = x.mean(-1, keepdim=True) if c.get("norm", "rms") == "layer" else torch.zeros_like(x[..., :1])
        scale = ((x - center).square().mean(-1, keepdim=True) + c.get("norm_eps", 1e-5)).sqrt()
        self._see(name + ".hook_scale", scale)
        normalized = self._see(name + ".hook_normalized", (x - center) / scale)
        weight = self.params[name + ".weight"] + c.get("norm_weight_offset", 0)
        bias = self.params.get(name + ".bias", torch.zeros_like(weight))
        return self._see(name + ".hook_out", normalized * weight + bias)

    def _stack(
        self, c: Config, prefix: str, table: Tensor, ids: Tensor, types: Tensor | None, memory: Tensor | None = None
    ) -> Tensor:
        kind, n = kind_of(c), len(ids)
        self._see(prefix + "hook_tokens", ids.float())
        x = self._embed(c, prefix, table, ids, types)
        positions = c.get("positions", "rope" if kind == "attention" else "none")
        if kind in GATES:
            x = self._recurrent(c, prefix, x, memory)
        for layer in range(c["n_layers"] if kind not in GATES else 0):
            at = f"{prefix or 'blocks.'}{layer}."
            if kind == "dense":
                self._see(at + "hook_resid_pre", x)
                pre = self._see(at + "mlp.hook_pre", self._apply(f"{prefix}dense.{layer}", x))
                x = self._see(at + "mlp.hook_post", ACTIVATIONS[c.get("activation", "silu")](pre))
                self._see(at + "hook_resid_post", x)
            else:
                bias = self._relative_bias(c, prefix, n) if positions == "relative" else 0
                bias = self._alibi(c, n) if positions == "alibi" else bias
                x = self._block(c, at, layer, x, memory, bias)
        if prefix + "ln_final.weight" in self.params:
            x = self._normed(c, prefix + "ln_final", x)
        return x

    def _embed(self, c: Config, prefix: str, table: Tensor, ids: Tensor, types: Tensor | None) -> Tensor:
        d, n, context = c["d_model"], len(ids), c.get("context", 1)
        padded = torch.cat([torch.full((context - 1,), c.get("pad_token_id", 0)), ids])
        rows = torch.stack([padded[t : t + context] for t in range(n)])
        x = table[rows] * c.get("embedding_scale", 1)
        if "embedding_width" in c:
            x = self._apply(prefix + "embed_proj", x)
        x = x.reshape(n, context * d)
        self._see(prefix + "hook_embed", x)
        if c.get("n_types"):
            kinds = types if types is not None else torch.zeros_like(ids)
            x = x + self._see(prefix + "hook_token_type_embed", self.params[prefix + "type_embed.weight"][kinds])
        first = c.get("first_position", 0)
        if c.get("positions") == "learned":
            table = self.params[prefix + "pos_embed.weight"]
            x = x + self._see(prefix + "hook_pos_embed", table[first : first + n])
        if c.get("positions") == "sinusoidal":
            x = x + self._see(prefix + "hook_pos_embed", self._sinusoids(c, torch.arange(first, first + n)))
        if c.get("embedding_norm"):
            x = self._normed(c, prefix + "ln_embed", x.reshape(n * context, d)).reshape(n, context * d)
        return x

    def _sinusoids(self, c: Config, positions: Tensor) -> Tensor:
        d, kind = c["d_model"], c.get("sinusoid", "interleaved")
        half = (d + 1) // 2
        i = torch.arange(half, dtype=torch.float64)
        exponent = i / (d // 2 - 1) if kind == "tensor2tensor" else 2 * i / d
        angles = positions[:, None].double() * 10000.0**-exponent
        if kind == "interleaved":
            return torch.stack([angles.sin(), angles.cos()], -1).reshape(len(positions), -1)[:, :d].to(self._dtype)
        return torch.cat([angles.sin(), angles.cos()], -1)[:, :d].to(self._dtype)

    def _relative_bias(self, c: Config, prefix: str, n: int) -> Tensor:
        """`[H, n, n]` (Raffel et al. 2019)."""
        two_sided = prefix == "encoder." or c.get("bidirectional", False)
        buckets, furthest = c.get("relative_buckets", 32), c.get("relative_max_distance", 128)
        distance = torch.arange(n)[None, :] - torch.arange(n)[:, None]
        own = buckets // 2 if two_sided else buckets
        first = (distance > 0).long() * own if two_sided else torch.zeros_like(distance)
        away = distance.abs() if two_sided else (-distance).clamp(min=0)
        exact = own // 2
        ratio = torch.log(away.clamp(min=1).float() / exact) / math.log(furthest / exact)
        far = (exact + (ratio * (own - exact)).long()).clamp(max=own - 1)
        bucket = first + torch.where(away < exact, away, far)
        return self.params[prefix + "rel_bias.weight"][bucket].permute(2, 0, 1)

    def _alibi(self, c: Config, n: int) -> Tensor:
        """`[H, n, n]` (Press et al. 2021)."""
        heads, most = c["n_heads"], c.get("alibi_max_bias", 8)
        power = 2 ** int(math.log2(heads))
        exponents = [(h + 1) / power for h in range(power)] + [(2 * h + 1) / (2 * power) for h in range(heads - power)]
        slopes = torch.tensor([2.0 ** (-most * e) for e in exponents], dtype=torch.float32).to(self._dtype)
        distance = (torch.arange(n)[None, :] - torch.arange(n)[:, None]).abs()
        return -slopes[:, None, None] * distance

    # Attention

    def _block(self, c: Config, at: str, layer: int, x: Tensor, memory: Tensor | None, bias: Tensor | int) -> Tensor:
        place, scale = c.get("norm_place", "before"), c.get("residual_scale", 1)
        self._see(at + "hook_resid_pre", x)

        def before(ln: str, y: Tensor) -> Tensor:
            return self._normed(c, at + ln, y) if place in ("before", "both") else y

        def join(ln: str, stream: Tensor, y: Tensor, out: str, total: str, normalized: str) -> Tensor:
            if place in ("after", "both"):
                y = self._normed(c, f"{at}{ln}_post", y)
            y = stream + self._see(at + out, y * scale)
            if total:
                self._see(at + total, y)
            return self._see(at + normalized, self._normed(c, at + ln, y)) if place == "after_residual" else y

        attended = self._attention(c, at + "attn.", layer, before("ln1", x), None, bias)
        parallel, mid = c.get("parallel", False), "hook_resid_mid"
        stream = join("ln1", x, attended, "hook_attn_out", "" if parallel else mid, "hook_normalized_resid_mid")
        ln = "ln2"
        if memory is not None:
            read = self._attention(c, at + "cross_attn.", layer, before("ln2", stream), memory, 0)
            names = ("hook_cross_attn_out", "hook_resid_mid_cross", "hook_normalized_resid_mid_cross")
            stream, ln = join("ln2", stream, read, *names), "ln3"
        y = self._ffn(c, at + "mlp.", before(ln, x if parallel else stream))
        return join(ln, stream, y, "hook_mlp_out", "hook_resid_post", "hook_normalized_resid_post")

    def _attention(
        self, c: Config, at: str, layer: int, x: Tensor, memory: Tensor | None, bias: Tensor | int
    ) -> Tensor:
        n_heads, n_kv = c["n_heads"], c.get("n_kv_heads", c["n_heads"])
        dh = c.get("head_dim", c["d_model"] // n_heads)
        source = x if memory is None else memory
        q = self._see(at + "hook_q", self._apply(at + "wq", x).view(len(x), n_heads, dh))
        k = self._see(at + "hook_k", self._apply(at + "wk", source).view(len(source), n_kv, dh))
        v = self._see(at + "hook_v", self._apply(at + "wv", source).view(len(source), n_kv, dh))
        over = c.get("qk_norm", "none")
        if over == "all_heads":
            q = self._normed(c, at + "q_norm", q.reshape(len(x), 1, -1)).view(q.shape)
            k = self._normed(c, at + "k_norm", k.reshape(len(source), 1, -1)).view(k.shape)
        elif over != "none":
            q = self._normed(c, at + "q_norm", q)
            k = self._normed(c, at + "k_norm", k)
        if memory is None and c.get("positions", "rope") == "rope":
            q = self._see(at + "hook_rot_q", self._rotated(c, q))
            k = self._see(at + "hook_rot_k", self._rotated(c, k))
        k, v = (y.repeat_interleave(n_heads // n_kv, 1) for y in (k, v))
        raw = torch.einsum("thd,shd->hts", q, k) * c.get("score_scale", 1 / math.sqrt(dh))
        scores = self._see(at + "hook_scores_raw", raw) + bias
        if cap := c.get("score_softcap"):
            scores = cap * torch.tanh(scores / cap)
        if memory is None:
            scores = scores.masked_fill(self._hidden(c, at, layer, len(x)), -math.inf)
        pattern = self._see(at + "hook_pattern", self._see(at + "hook_attn_scores", scores).softmax(-1))
        z = self._see(at + "hook_z", torch.einsum("hts,shd->thd", pattern, v))
        by_head = self.params[at + "wo.weight"].view(-1, n_heads, dh)
        self._see(at + "hook_result", torch.einsum("thd,ohd->tho", z, by_head))
        return self._see(at + "hook_out", self._apply(at + "wo", z.reshape(len(x), -1)))

    def _hidden(self, c: Config, at: str, layer: int, n: int) -> Tensor:
        t, s = torch.arange(n)[:, None], torch.arange(n)[None, :]
        two_sided = at.startswith("encoder.") or c.get("bidirectional", False)
        hidden = torch.zeros(n, n, dtype=torch.bool) if two_sided else s > t
        is_full = "full_every" in c and (layer + 1) % c["full_every"] == 0
        if "window" in c and not is_full:
            hidden = hidden | (t - s >= c["window"]) | (s - t >= c["window"])
        return hidden

    def _rotated(self, c: Config, x: Tensor) -> Tensor:
        dim = int(c.get("rope_fraction", 1) * x.shape[-1])
        frequency = c.get("rope_theta", 10000.0) ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        angle = (torch.arange(len(x))[:, None] * frequency)[:, None, :]
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        turned, rest = x[..., :dim], x[..., dim:]
        if c.get("rope_interleaved"):
            a, b = turned[..., 0::2], turned[..., 1::2]
            turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
        else:
            a, b = turned.chunk(2, -1)
            turned = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        return torch.cat([turned, rest], -1)

    def _ffn(self, c: Config, at: str, x: Tensor) -> Tensor:
        if "n_experts" not in c:
            return self._see(at + "hook_out", self._dense(c, at, x, at))
        weights = self._apply(at + "router", x).softmax(-1)
        top, chosen = weights.topk(c["top_k"], -1)
        if c.get("renormalize", True):
            top = top / top.sum(-1, keepdim=True)
        outputs = torch.stack([self._dense(c, f"{at}experts.{e}.", x) for e in range(c["n_experts"])], 1)
        picked = outputs.gather(1, chosen[..., None].expand(-1, -1, x.shape[-1]))
        y = (top[..., None] * picked).sum(1)
        if c.get("d_ff_shared"):
            y = y + self._dense(c, at + "shared.", x) * torch.sigmoid(self._apply(at + "shared_gate", x))
        return self._see(at + "hook_out", y)

    def _dense(self, c: Config, at: str, x: Tensor, sites: str = "") -> Tensor:
        act, up = ACTIVATIONS[c.get("activation", "silu")], self._apply(at + "w_up", x)
        gate = self._apply(at + "w_gate", x) if c.get("gated", True) else None
        post = act(up) if gate is None else act(gate) * up
        if sites:
            self._see(sites + "hook_pre", up if gate is None else gate)
            self._see(sites + "hook_post", post)
            if gate is not None:
                self._see(sites + "hook_pre_linear", up)
        return self._apply(at + "w_down", post)

    # Recurrent layers

    def _recurrent(self, c: Config, prefix: str, x: Tensor, memory: Tensor | None) -> Tensor:
        reads = memory is not None and c.get("attention")
        bridge = c.get("bridge", "copy") if prefix == "decoder." and self._source_states else None
        states = []
        for layer in range(c["n_layers"]):
            at = f"{prefix or 'blocks.'}{layer}."
            self._see(at + "hook_resid_pre", x)
            first = self._bridged(c, prefix, layer, bridge)
            attend = memory if reads and layer == 0 else None
            outputs, last = [], []
            for suffix in ["", "_reverse"][: 2 if c.get("bidirectional") else 1]:
                out, end = self._scan(c, prefix, at, layer, suffix, x, first, attend)
                outputs.append(out)
                last.append(end)
            states.append([torch.cat(parts) for parts in zip(*last, strict=True)])
            x = self._see(at + "hook_resid_post", torch.cat(outputs, -1))
        if prefix == "encoder.":
            self._source_states = states
        return x

    _source_states: list[list[Tensor]] = []

    def _bridged(self, c: Config, prefix: str, layer: int, bridge: str | None) -> list[Tensor]:
        """h and c before the first row."""
        zeros = [torch.zeros(d_hidden(c), dtype=self._dtype)] * 2
        if bridge is None or self.encoder is None or kind_of(self.encoder) not in GATES:
            return zeros
        states = self._source_states[layer]
        if bridge == "linear":
            names = ["bridge", "bridge_c"][: 2 if kind_of(c) == "lstm" else 1]
            states = [torch.tanh(self._apply(f"{prefix}{n}.{layer}", s)) for n, s in zip(names, states, strict=False)]
        return states + zeros[len(states) :]

    def _scan(
        self, c: Config, prefix: str, at: str, layer: int, suffix: str, x: Tensor, first: list[Tensor],
        memory: Tensor | None,
    ) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
        kind = kind_of(c)
        w = {n: self.params[f"{prefix}rnn.{n}_l{layer}{suffix}"] for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        h, cell = first
        rows: dict[str, list[Tensor]] = {}
        order = range(len(x)) if not suffix else reversed(range(len(x)))
        for t in order:
            read = x[t]
            if memory is not None:
                inner = self._apply(prefix + "attn.query", h) + self._apply(prefix + "attn.key", memory)
                pattern = self._apply(prefix + "attn.v", torch.tanh(inner))[:, 0].softmax(0)
                rows.setdefault("pattern", []).append(pattern)
                read = torch.cat([read, pattern @ memory])
            z = functional.linear(read, w["weight_ih"], w["bias_ih"])
            u = functional.linear(h, w["weight_hh"], w["bias_hh"])
            seen: dict[str, Tensor] = {}
            if kind == "lstm":
                i, f, g, o = (z + u).chunk(4)
                i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
                cell = f * cell + i * g
                h = o * cell.tanh()
                seen = {"i": i, "f": f, "g": g, "o": o, "c": cell}
            elif kind == "gru":
                (zr, zz, zn), (ur, uz, un) = z.chunk(3), u.chunk(3)
                r, update = (zr + ur).sigmoid(), (zz + uz).sigmoid()
                new = (zn + r * un).tanh()
                h = (1 - update) * new + update * h
                seen = {"r": r, "z": update, "n": new}
            else:
                h = torch.relu(z + u) if c.get("activation", "tanh") == "relu" else torch.tanh(z + u)
            for name, value in (seen | {"h": h}).items():
                rows.setdefault(name, []).append(value)
        if "pattern" in rows:
            self._see(at + "cross_attn.hook_pattern", torch.stack(rows.pop("pattern"))[None])
        for name, values in rows.items():
            stacked = torch.stack(values if not suffix else values[::-1])
            self._see(f"{at}cell{suffix}.hook_{name}", stacked)
        return self.sites[f"{at}cell{suffix}.hook_h"], [h, cell] if kind == "lstm" else [h]
