"""Runs a transformers model once and names the values that it computed as sites.

`record` observes the real forward: the input and output of every module, the arguments and results
of the eager attention function, and those of the rotary embedding. `build_sites` names these values
as TransformerLens does and derives the few that no module returns (norm scales, raw scores, the
contribution of each head). Assertions check that the derived values lead to the values that the model
returned.
"""

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from unittest.mock import patch

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

TOLERANCE = 5e-6  # of recomputed values, relative to the largest magnitude in the tensor

ROTATES_ALONE = ("GPTJForCausalLM", "CodeGenForCausalLM")  # first k, then q, [1, T, heads, elements]

Sites = dict[str, Tensor]


@dataclass(frozen=True)
class Layout:
    """The paths of a family's modules; those of a block are relative to the block."""

    blocks: str
    embed: str
    final_norm: str | None
    attn_proj: str
    mlp: str  # empty: its modules are those of the block
    mlp_down: str = ""
    mlp_pre: str = ""
    mlp_up: str | None = None
    mlp_gate_up: str | None = None  # both in one module, the gate first
    ln1: str | None = None
    ln2: str | None = None  # None: the MLP reads the stream, or the output of ln1
    ln1_post: str | None = None
    ln2_post: str | None = None
    pos_embed: str | None = None
    embed_norm: str | None = None
    q_proj: str = "self_attn.q_proj"  # if q and k are normalized: their projections and norms
    k_proj: str = "self_attn.k_proj"
    q_norm: str = "self_attn.q_norm"
    k_norm: str = "self_attn.k_norm"
    norm_after_rope: bool = False
    parallel: bool = False
    norms_sum: bool = False  # ln1 and ln2 follow the residual sums
    mlp_adds: bool = False  # the MLP's module adds the stream to its result


LLAMA = Layout(
    blocks="model.layers",
    embed="model.embed_tokens",
    final_norm="model.norm",
    ln1="input_layernorm",
    ln2="post_attention_layernorm",
    attn_proj="self_attn.o_proj",
    mlp="mlp",
    mlp_pre="mlp.gate_proj",
    mlp_up="mlp.up_proj",
    mlp_down="mlp.down_proj",
)


@dataclass
class AttentionCall:
    """One call of the eager attention function, without batch; q, k, v are [heads, T, dh]."""

    q: Tensor
    k: Tensor
    v: Tensor
    masked: Tensor
    scaling: float
    softcap: float | None
    z: Tensor
    pattern: Tensor
    bias: Tensor | float = 0.0  # of the scaled scores


@dataclass
class Record:
    """Everything observed during one forward."""

    inputs: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, Tensor] = field(default_factory=dict)
    routed: dict[str, tuple[Tensor, ...]] = field(default_factory=dict)
    attention: list[AttentionCall] = field(default_factory=list)
    before_rotation: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  # by layer
    logits: Tensor | None = None
    loss: Tensor | None = None


def assert_close(got: Tensor, want: Tensor, what: str) -> None:
    """Asserts that the recomputed value equals the captured one up to the rounding of float32."""
    assert got.shape == want.shape, f"{what}: shape {tuple(got.shape)} != {tuple(want.shape)}"
    error = (got - want).abs().max().item()
    bound = TOLERANCE * max(1.0, want.abs().max().item())
    assert error <= bound, f"{what}: recomputed value is off by {error:.3g} (allowed {bound:.3g})"


def record(model: PreTrainedModel, ids: Tensor) -> Record:
    """Runs `model` on the ids and records the values that it computes."""
    seen = Record()
    family = sys.modules[type(model).__module__]
    with ExitStack() as observed:
        for name, module in model.named_modules():
            hook = module.register_forward_hook(_module_observer(seen, name))
            observed.callback(hook.remove)
        if hasattr(family, "eager_attention_forward"):
            observed.enter_context(
                patch.object(
                    family,
                    "eager_attention_forward",
                    _attention_observer(seen, family.eager_attention_forward),
                )
            )
        elif hasattr(family, "FalconAttention"):
            _observe_inline_attention(seen, model, family, observed)
        else:
            _observe_returned_patterns(seen, model, family, observed)
        if hasattr(family, "apply_rotary_pos_emb") and hasattr(family, "eager_attention_forward"):
            observed.enter_context(
                patch.object(
                    family,
                    "apply_rotary_pos_emb",
                    _rotary_observer(seen, family.apply_rotary_pos_emb)
                    if type(model).__name__ not in ROTATES_ALONE
                    else _single_rotary_observer(seen, family.apply_rotary_pos_emb),
                )
            )
        with torch.no_grad():
            result = model(ids[None], labels=ids[None], use_cache=False)
    logits = result.prediction_logits if hasattr(result, "prediction_logits") else result.logits
    seen.logits, seen.loss = logits[0], result.loss
    assert len(seen.attention) == model.config.num_hidden_layers, "attention was not observed"
    return seen


def _module_observer(seen: Record, name: str):
    def hook(_module, args, output):
        if args and isinstance(args[0], Tensor):
            seen.inputs[name] = args[0][0] if args[0].ndim > 2 else args[0]
        if isinstance(output, Tensor):
            # a copy: some models add to a module's output in place
            seen.outputs[name] = (output[0] if output.ndim == 3 else output).clone()
        elif name.endswith(("mlp.gate", "moe.router")):  # a router: logits, the weights of the chosen experts, their indices
            seen.routed[name] = output
        elif isinstance(output, tuple) and isinstance(output[0], Tensor):
            seen.outputs[name] = output[0][0]

    return hook


def _observe_inline_attention(seen: Record, model: PreTrainedModel, family, observed: ExitStack):
    """Falcon has no attention function, so the record is assembled from its parts."""
    config = model.config
    rotate, attention_class = family.apply_rotary_pos_emb, family.FalconAttention
    split = attention_class._split_heads
    values, rotated = [], []

    def observed_split(self, fused):
        q, k, v = split(self, fused)
        values.append(v[0].transpose(0, 1))
        return q, k, v

    def observed_rotation(q, k, *args, **kwargs):
        result = rotate(q, k, *args, **kwargs)
        seen.before_rotation[len(seen.attention)] = (q[0], k[0][:: shared(k[0])])
        rotated.append((result[0][0], result[1][0][:: shared(k[0])]))
        return result

    def shared(heads: Tensor) -> int:
        """The number of copies of each key head."""
        if not config.new_decoder_architecture:
            return 1
        return heads.shape[0] // config.num_kv_heads

    def after_attention(module, _args, output):
        out, pattern = output[0], output[1]
        assert pattern is not None, "the pattern was not returned"
        tokens = out.shape[1]
        v = values[-1][:: shared(values[-1])]
        z = pattern[0] @ v.repeat_interleave(pattern.shape[1] // v.shape[0], dim=0)
        call = AttentionCall(
            q=rotated[-1][0],
            k=rotated[-1][1],
            v=v,
            masked=torch.ones(tokens, tokens).triu(1).bool(),
            scaling=module.head_dim**-0.5,
            softcap=None,
            z=z.transpose(0, 1),
            pattern=pattern[0],
        )
        seen.attention.append(call)

    observed.enter_context(patch.object(family, "apply_rotary_pos_emb", observed_rotation))
    observed.enter_context(patch.object(attention_class, "_split_heads", observed_split))
    for layer in model.transformer.h:
        hook = layer.self_attention.register_forward_hook(after_attention)
        observed.callback(hook.remove)


def _observe_returned_patterns(seen: Record, model: PreTrainedModel, family, observed: ExitStack):
    """BLOOM, MPT and GPT-Neo have no attention function either, but return the pattern."""

    def heads(module, name: str, tokens: int) -> tuple[Tensor, Tensor, Tensor, float, Tensor | float]:
        """q, k, v [heads, T, dh], the scale of the scores, and what is added to them."""
        if hasattr(module, "query_key_value"):
            q, k, v = module._reshape(seen.outputs[f"{name}.query_key_value"][None])
            alibi = family._get_alibi_slopes(module.num_heads, q.device)[:, None] * torch.arange(tokens)
            return q[0], k[0], v[0], module.inv_norm_factor, by_distance(alibi)
        if hasattr(module, "Wqkv"):
            fused = seen.outputs[f"{name}.Wqkv"]
            if module.clip_qkv:
                fused = fused.clamp(-module.clip_qkv, module.clip_qkv)
            parts = (x.view(tokens, module.n_heads, -1).transpose(0, 1) for x in fused.chunk(3, -1))
            alibi = family.build_mpt_alibi_tensor(module.n_heads, tokens)[:, 0]
            return *parts, module.softmax_scale, by_distance(alibi)
        projected = (seen.outputs[f"{name}.{x}_proj"].view(tokens, module.num_heads, -1) for x in "qkv")
        return *(x.transpose(0, 1) for x in projected), 1.0, 0.0

    def by_distance(alibi: Tensor) -> Tensor:
        """A bias of the keys, as one of the distances: 0 for the query's own position."""
        return alibi[:, None, :] - alibi[:, :, None]

    def observer(name: str):
        def after_attention(module, _args, output):
            pattern = output[1][0]
            tokens = pattern.shape[-1]
            masked = torch.ones(tokens, tokens).triu(1).bool()
            if hasattr(module, "attention_type"):
                masked = ~module.bias[0, 0, :tokens, :tokens]
            q, k, v, scaling, bias = heads(module, name, tokens)
            z = (pattern @ v).transpose(0, 1)
            seen.attention.append(AttentionCall(q, k, v, masked, scaling, None, z, pattern, bias))

        return after_attention

    for name, module in model.named_modules():
        if type(module).__name__ in ("BloomAttention", "MptAttention", "GPTNeoSelfAttention"):
            observed.callback(module.register_forward_hook(observer(name)).remove)


def _attention_observer(seen: Record, attention):
    def observed(module, query, key, value, attention_mask, **options):
        z, pattern = attention(module, query, key, value, attention_mask, **options)
        full = torch.zeros(query.shape[2], key.shape[2]).bool()
        masked = full if attention_mask is None else (attention_mask[0, 0] < 0).expand_as(full)
        scaling = options["scaling"]
        if type(module).__name__ == "OPTAttention":  # it has scaled the queries
            scaling, query = module.scaling, query / module.scaling
        call = AttentionCall(
            q=query[0],
            k=key[0],
            v=value[0],
            masked=masked,
            scaling=scaling,
            softcap=options.get("softcap"),
            z=z[0],
            pattern=pattern[0],
        )
        seen.attention.append(call)
        return z, pattern

    return observed


def _rotary_observer(seen: Record, rotate):
    def observed(q, k, *args, **kwargs):
        seen.before_rotation[len(seen.attention)] = (q[0], k[0])
        return rotate(q, k, *args, **kwargs)

    return observed


def _single_rotary_observer(seen: Record, rotate):
    keys: list[Tensor] = []

    def observed(tensor, sin, cos):
        heads = tensor[0].transpose(0, 1)
        if keys:
            seen.before_rotation[len(seen.attention)] = (heads, keys.pop())
        else:
            keys.append(heads)
        return rotate(tensor, sin, cos)

    return observed


def build_sites(model: PreTrainedModel, layout: Layout, ids: Tensor, seen: Record) -> Sites:
    """All sites of the forward, in the order in which it computes them."""
    sites: Sites = {"hook_tokens": ids.float()}
    scale = getattr(model.config, "embedding_multiplier", 1.0)
    stream = sites["hook_embed"] = seen.outputs[layout.embed] * scale
    if layout.pos_embed:
        sites["hook_pos_embed"] = seen.outputs[layout.pos_embed]
        stream = stream + sites["hook_pos_embed"]
    if layout.embed_norm:
        sites |= norm_sites(model, seen, layout.embed_norm, "ln_embed")
        stream = sites["ln_embed.hook_out"]
    for layer in range(model.config.num_hidden_layers):
        block = block_sites(model, layout, seen, layer)
        assert_close(block["hook_resid_pre"], stream, f"input of block {layer}")
        stream = block["hook_normalized_resid_post" if layout.norms_sum else "hook_resid_post"]
        sites |= {f"blocks.{layer}.{name}": value for name, value in block.items()}
    sites |= head_sites(model, layout, seen, ids)
    if layout.final_norm:
        assert_close(seen.inputs[layout.final_norm], stream, "input of the final norm")
    return {name: value.detach().clone().contiguous() for name, value in sites.items()}


def residual_scale(config) -> float:
    """The factor of the sublayers' outputs."""
    if hasattr(config, "scale_depth"):
        return config.scale_depth / config.num_hidden_layers**0.5
    return getattr(config, "residual_multiplier", 1.0)


def block_sites(model: PreTrainedModel, layout: Layout, seen: Record, layer: int) -> Sites:
    """The sites of one block, without the prefix `blocks.{l}.`."""
    block = f"{layout.blocks}.{layer}"

    def norm(site: str, name: str) -> Sites:
        return norm_sites(model, seen, f"{block}.{name}", site)

    resid_pre = seen.inputs[block]
    sites: Sites = {"hook_resid_pre": resid_pre}
    if layout.ln1 and not layout.norms_sum:
        sites |= norm("ln1", layout.ln1)
    sites |= attention_sites(model, layout, seen, layer)
    attn_out = sites["attn.hook_out"]
    if layout.ln1_post:
        sites |= norm("ln1_post", layout.ln1_post)
        attn_out = sites["ln1_post.hook_out"]
    scale = residual_scale(model.config)
    attn_out = sites["hook_attn_out"] = attn_out * scale
    stream = resid_pre
    if layout.norms_sum:
        sites["hook_resid_mid"] = seen.inputs[f"{block}.{layout.ln1}"]
        assert_close(resid_pre + attn_out, sites["hook_resid_mid"], f"{block}: residual after attention")
        sites |= norm("ln1", layout.ln1)
        stream = sites["hook_normalized_resid_mid"] = sites["ln1.hook_out"]
    elif not layout.parallel:
        resid_mid = seen.inputs[f"{block}.{layout.ln2 or layout.mlp}"]
        sites["hook_resid_mid"] = resid_mid
        assert_close(resid_pre + attn_out, resid_mid, f"{block}: residual after attention")
    if layout.ln2 and not layout.norms_sum:
        sites |= norm("ln2", layout.ln2)
    if hasattr(model.get_submodule(f"{block}.{layout.mlp}".rstrip(".")), "experts"):
        sites |= moe_sites(model, layout, seen, block)
    else:
        sites |= mlp_sites(model, layout, seen, block)
    mlp_out = sites["mlp.hook_out"]
    if layout.ln2_post:
        sites |= norm("ln2_post", layout.ln2_post)
        mlp_out = sites["ln2_post.hook_out"]
    mlp_out = sites["hook_mlp_out"] = mlp_out * scale
    if layout.norms_sum:
        sites["hook_resid_post"] = seen.inputs[f"{block}.{layout.ln2}"]
        assert_close(stream + mlp_out, sites["hook_resid_post"], f"{block}: residual after the MLP")
        sites |= norm("ln2", layout.ln2)
        sites["hook_normalized_resid_post"] = sites["ln2.hook_out"]
        return sites
    resid_post = sites["hook_resid_post"] = seen.outputs[block]

    assert_close(resid_pre + attn_out + mlp_out, resid_post, f"{block}: residual after the MLP")
    return sites


def norm_sites(model: PreTrainedModel, seen: Record, name: str, site: str) -> Sites:
    """Scale, normalized value and output of the norm module `name`."""
    return normalization_sites(model.get_submodule(name), seen.inputs[name], seen.outputs[name], name, site)


def weight_offset(norm: nn.Module) -> float:
    """1 if the norm stores the difference of its weight from one."""
    return 1.0 if "Gemma" in type(norm).__name__ or "1P" in type(norm).__name__ else 0.0


def normalization_sites(norm: nn.Module, x: Tensor, out: Tensor, name: str, site: str) -> Sites:
    """Scale, normalized value and output of a norm that made `out` from `x`."""
    kind = type(norm).__name__
    if "LayerNorm" in kind and "T5" not in kind:  # T5LayerNorm is an RMSNorm
        x = x - x.mean(-1, keepdim=True)
    if hasattr(norm, "norms"):  # a module for each head
        epsilon, own_weight = norm.norms[0].eps, torch.stack([head.weight for head in norm.norms])
    else:
        epsilon = getattr(norm, "variance_epsilon", getattr(norm, "eps", 1e-5))
        own_weight = getattr(norm, "weight", 1.0)
    scale = (x.pow(2).mean(-1, keepdim=True) + epsilon).sqrt()
    normalized = x / scale
    weight = own_weight + weight_offset(norm)
    bias = getattr(norm, "bias", None)
    assert_close(normalized * weight + (0.0 if bias is None else bias), out, name)
    return {
        f"{site}.hook_scale": scale,
        f"{site}.hook_normalized": normalized,
        f"{site}.hook_out": out,
    }


def latent_sites(model: PreTrainedModel, seen: Record, name: str, call: AttentionCall) -> Sites:
    """From the projections to the keys and values by head of latent attention, the module `name`."""
    attention = model.get_submodule(name)
    nope = attention.qk_nope_head_dim
    sites: Sites = {}
    for letter, norm in ("q", f"{name}.q_a_layernorm"), ("kv", f"{name}.kv_a_layernorm"):
        if norm not in seen.outputs:
            continue
        of_norm = norm_sites(model, seen, norm, f"attn.{letter}_latent_norm")
        out = of_norm.pop(f"attn.{letter}_latent_norm.hook_out")
        sites |= of_norm | {f"attn.hook_{letter}_latent": out}
    for letter, value in ("q", call.q), ("k", call.k):
        rotated = value[..., nope:]
        if type(attention).__name__ == "DeepseekV2Attention":  # its pairs are neighbours after RoPE, too
            rotated = torch.cat((rotated[..., 0::2], rotated[..., 1::2]), -1)
        whole = torch.cat((value[..., :nope], rotated), -1)
        sites[f"attn.hook_{letter}"] = whole.transpose(0, 1)
        sites[f"attn.hook_rot_{letter}"] = (rotated if letter == "q" else rotated[:1]).transpose(0, 1)
    return sites | {"attn.hook_v": call.v.transpose(0, 1)}


def attention_sites(model: PreTrainedModel, layout: Layout, seen: Record, layer: int) -> Sites:
    """From the projections to the output of the attention module."""
    call = seen.attention[layer]
    name = f"{layout.blocks}.{layer}.{layout.attn_proj}"
    module = name.rsplit(".", 1)[0]
    if f"{module}.kv_a_layernorm" in seen.outputs:
        return latent_sites(model, seen, module, call) | score_sites(model, seen, name, call)
    rotated = layer in seen.before_rotation  # else the layer has no RoPE
    q, k = seen.before_rotation[layer] if rotated else (call.q, call.k)
    # some models pass only the rotated part of each head
    q, k = (torch.cat((a, b[..., a.shape[-1] :]), -1) for a, b in ((q, call.q), (k, call.k)))
    sites: Sites = {"attn.hook_v": call.v.transpose(0, 1)}
    block = f"{layout.blocks}.{layer}"
    if layout.norm_after_rope:
        sites |= {"attn.hook_q": q.transpose(0, 1), "attn.hook_k": k.transpose(0, 1)}
        for letter, path, out in ("q", layout.q_norm, call.q), ("k", layout.k_norm, call.k):
            norm, x = f"{block}.{path}", seen.inputs[f"{block}.{path}"].transpose(0, 1)
            sites[f"attn.hook_rot_{letter}"] = x
            sites |= normalization_sites(
                model.get_submodule(norm), x, out.transpose(0, 1), norm, f"attn.{letter}_norm"
            )
        rotated = False
    elif f"{block}.{layout.q_norm}" in seen.outputs:
        sites |= qk_norm_sites(model, seen, block, layout.q_proj, layout.q_norm, "q", q)
        sites |= qk_norm_sites(model, seen, block, layout.k_proj, layout.k_norm, "k", k)
    else:
        sites |= {"attn.hook_q": q.transpose(0, 1), "attn.hook_k": k.transpose(0, 1)}
    if rotated:
        sites["attn.hook_rot_q"] = call.q.transpose(0, 1)
        sites["attn.hook_rot_k"] = call.k.transpose(0, 1)
    return sites | score_sites(model, seen, name, call)


def score_sites(model: PreTrainedModel, seen: Record, name: str, call: AttentionCall) -> Sites:
    """From the scores to the output of the projection `name`."""
    sites: Sites = {}
    group = call.q.shape[0] // call.k.shape[0]
    keys, values = (x.repeat_interleave(group, dim=0) for x in (call.k, call.v))
    raw = sites["attn.hook_scores_raw"] = call.q @ keys.transpose(1, 2) * call.scaling
    biased = raw + call.bias
    capped = biased if call.softcap is None else torch.tanh(biased / call.softcap) * call.softcap
    scores = sites["attn.hook_attn_scores"] = capped.masked_fill(call.masked, -torch.inf)
    sites["attn.hook_pattern"] = call.pattern
    sites["attn.hook_z"] = call.z
    assert_close(scores.softmax(-1), call.pattern, f"{name}: pattern")
    assert torch.all(call.pattern[:, call.masked] == 0), f"{name}: masked entries are not zero"
    assert_close((call.pattern @ values).transpose(0, 1), call.z, f"{name}: z")
    assert_close(call.z.flatten(1), seen.inputs[name], f"{name}: its input is not z")

    projection, out = model.get_submodule(name), seen.outputs[name]
    weight = projection.weight if isinstance(projection, Conv1D) else projection.weight.T
    per_head = weight.reshape(call.z.shape[1], call.z.shape[2], -1)
    result = sites["attn.hook_result"] = torch.einsum("thk,hkd->thd", call.z, per_head)
    bias = 0.0 if projection.bias is None else projection.bias
    assert_close(result.sum(1) + bias, out, f"{name}: sum of the heads")
    sites["attn.hook_out"] = out
    return sites


def qk_norm_sites(
    model: PreTrainedModel, seen: Record, block: str, proj: str, name: str, letter: str, out: Tensor
) -> Sites:
    """q or k as projected, and its norm: over each head, or over all heads as one vector."""
    norm = model.get_submodule(f"{block}.{name}")
    heads, tokens, width = out.shape
    x = seen.outputs[f"{block}.{proj}"].reshape(tokens, heads, width)
    is_by_head = hasattr(norm, "norms") or norm.weight.shape[-1] == width
    normed = x if is_by_head else x.reshape(tokens, 1, heads * width)
    result = out.transpose(0, 1).reshape(normed.shape)
    sites = normalization_sites(norm, normed, result, f"{block}: norm of {letter}", f"attn.{letter}_norm")
    return {f"attn.hook_{letter}": x} | sites


def moe_sites(model: PreTrainedModel, layout: Layout, seen: Record, block: str) -> Sites:
    """The router, the experts that tokens chose, and the shared expert."""
    name = f"{block}.{layout.mlp}"
    mlp, x = model.get_submodule(name), seen.inputs[name]
    router = mlp.gate if hasattr(mlp, "gate") else mlp.router
    logits, shares, chosen = seen.routed[f"{name}.{'gate' if hasattr(mlp, 'gate') else 'router'}"]
    corrections = [value for key, value in mlp.state_dict().items() if key.endswith("correction_bias")]
    is_softmax = type(router).__name__.startswith(("DeepseekV2", "Mistral4"))
    is_grouped = hasattr(router, "num_group")
    is_sigmoid = (is_grouped and not is_softmax) or "MiniMaxM2" in type(router).__name__
    scores = logits.sigmoid() if is_sigmoid else logits.softmax(-1)
    if corrections or is_sigmoid or is_grouped:  # the choice is by another number than the weight, and some leave it unsorted
        order = (scores + (sum(corrections).flatten() if corrections else 0.0)).gather(1, chosen).argsort(-1, descending=True)
        shares, chosen = shares.gather(1, order), chosen.gather(1, order)
        weights = torch.zeros_like(scores).scatter(1, chosen, shares)
    else:
        weights = scores
    sites: Sites = {
        "mlp.hook_router_logits": logits,
        "mlp.hook_router_scores": scores,
        "mlp.hook_expert_weights": weights,
        "mlp.hook_expert_indices": chosen.float(),
    }
    total = torch.zeros_like(x)
    for expert in range(logits.shape[1]):
        tokens, ranks = torch.where(chosen == expert)
        if len(tokens) == 0:
            continue
        gate, up = (x[tokens] @ mlp.experts.gate_up_proj[expert].T).chunk(2, dim=-1)
        post = mlp.experts.act_fn(gate) * up
        out = post @ mlp.experts.down_proj[expert].T
        values = {"tokens": tokens.float(), "gate": gate, "pre": up, "post": post, "out": out}
        sites |= {f"mlp.experts.{expert}.hook_{key}": value for key, value in values.items()}
        total.index_add_(0, tokens, out * shares[tokens, ranks, None])
    shared = next((s for s in ("shared_expert", "shared_experts", "shared_mlp") if hasattr(mlp, s)), None)
    if shared:
        inner = f"{name}.{shared}"
        values = {
            "gate": seen.outputs[f"{inner}.gate_proj"],
            "pre": seen.outputs[f"{inner}.up_proj"],
            "post": seen.inputs[f"{inner}.down_proj"],
            "out": seen.outputs[f"{inner}.down_proj"],
        }
        sites |= {f"mlp.experts.shared.hook_{key}": value for key, value in values.items()}
        is_gated = hasattr(mlp, "shared_expert_gate")
        gate = torch.sigmoid(x @ mlp.shared_expert_gate.weight.T) if is_gated else 1.0
        total = total + values["out"] * gate
    sites["mlp.hook_out"] = seen.outputs[name]
    assert_close(total, seen.outputs[name], f"{name}: sum of the experts")
    return sites


def activation_slot(mlp: nn.Module) -> str:
    """The name of an MLP's activation."""
    return next(slot for slot in ("act_fn", "act", "activation_fn", "gelu_impl") if hasattr(mlp, slot))


def mlp_sites(model: PreTrainedModel, layout: Layout, seen: Record, block: str) -> Sites:
    """From the input projections to the output of the MLP module."""
    name = f"{block}.{layout.mlp}".rstrip(".")
    mlp = model.get_submodule(name)
    activation = getattr(mlp, activation_slot(mlp))
    if layout.mlp_gate_up:
        pre, up = seen.outputs[f"{block}.{layout.mlp_gate_up}"].chunk(2, dim=-1)
    else:
        pre = seen.outputs[f"{block}.{layout.mlp_pre}"]
        up = seen.outputs[f"{block}.{layout.mlp_up}"] if layout.mlp_up else None
    sites: Sites = {"mlp.hook_pre": pre}
    post = activation(pre)
    if up is not None:
        sites["mlp.hook_pre_linear"] = up
        post = post * up
    sites["mlp.hook_post"] = seen.inputs[f"{block}.{layout.mlp_down}"]
    sites["mlp.hook_out"] = seen.outputs[f"{block}.{layout.mlp_down}"]
    assert_close(post, sites["mlp.hook_post"], f"{block}: MLP activation")
    if layout.mlp and not layout.mlp_adds:
        assert_close(sites["mlp.hook_out"], seen.outputs[name], f"{block}: MLP")
    return sites


def head_sites(model: PreTrainedModel, layout: Layout, seen: Record, ids: Tensor) -> Sites:
    """The final norm, the unembedding, the logits and the loss."""
    sites = norm_sites(model, seen, layout.final_norm, "ln_final") if layout.final_norm else {}
    # MiniCPM 3 divides the input of the head instead of the logits
    before = model.config.logits_scaling if hasattr(model.config, "dim_model_base") else 1.0
    raw = seen.outputs["lm_head"] * before
    sites["unembed.hook_in"] = seen.inputs["lm_head"] * before
    sites["unembed.hook_out"] = raw
    softcap = getattr(model.config, "final_logit_softcapping", None)
    scale = (getattr(model.config, "logit_scale", None) or 1.0) / getattr(model.config, "logits_scaling", 1.0)
    assert softcap is None or scale == 1.0
    logits = raw * scale if softcap is None else torch.tanh(raw / softcap) * softcap
    loss = nn.functional.cross_entropy(seen.logits[:-1], ids[1:], reduction="none")
    bias = 0.0 if model.lm_head.bias is None else model.lm_head.bias
    assert_close(sites["unembed.hook_in"] @ model.lm_head.weight.T + bias, raw, "unembedding")
    if layout.final_norm:
        assert_close(sites["ln_final.hook_out"], sites["unembed.hook_in"], "input of the unembedding")
    assert_close(logits, seen.logits, "logits")
    assert_close(loss.mean(), seen.loss, "loss")
    sites["hook_logits"] = seen.logits
    sites["hook_loss"] = loss
    return sites
