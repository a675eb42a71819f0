"""Runs a transformers model once and turns what it did into named sites.

`record` observes the real forward: the input and output of every module, the arguments and results
of the eager attention function, and those of the rotary embedding. `build_sites` names these values
as TransformerLens does and derives the few that no module returns (norm scales, raw scores, the
contribution of each head). Everything derived is asserted to lead back to what the model itself
returned, so the two cannot drift apart.
"""

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

TOLERANCE = 5e-6  # of recomputed values, relative to the largest magnitude in the tensor

Sites = dict[str, Tensor]


@dataclass(frozen=True)
class Layout:
    """Where a family keeps its modules; block modules are relative to the block."""

    blocks: str
    embed: str
    final_norm: str
    ln1: str
    ln2: str
    attn_proj: str
    mlp: str
    mlp_pre: str
    mlp_down: str
    mlp_up: str | None = None
    ln1_post: str | None = None
    ln2_post: str | None = None
    pos_embed: str | None = None


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
GEMMA2 = replace(
    LLAMA,
    ln1_post="post_attention_layernorm",
    ln2="pre_feedforward_layernorm",
    ln2_post="post_feedforward_layernorm",
)
GPT2 = Layout(
    blocks="transformer.h",
    embed="transformer.wte",
    pos_embed="transformer.wpe",
    final_norm="transformer.ln_f",
    ln1="ln_1",
    ln2="ln_2",
    attn_proj="attn.c_proj",
    mlp="mlp",
    mlp_pre="mlp.c_fc",
    mlp_down="mlp.c_proj",
)
LAYOUTS = {"llama": LLAMA, "gemma": LLAMA, "gemma2": GEMMA2, "gpt2": GPT2}


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


@dataclass
class Record:
    """Everything observed during one forward."""

    inputs: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, Tensor] = field(default_factory=dict)
    attention: list[AttentionCall] = field(default_factory=list)
    before_rotation: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    logits: Tensor | None = None
    loss: Tensor | None = None


def assert_close(got: Tensor, want: Tensor, what: str) -> None:
    """The recomputed value is the captured one, up to the rounding of float32."""
    assert got.shape == want.shape, f"{what}: shape {tuple(got.shape)} != {tuple(want.shape)}"
    error = (got - want).abs().max().item()
    bound = TOLERANCE * max(1.0, want.abs().max().item())
    assert error <= bound, f"{what}: recomputed value is off by {error:.3g} (allowed {bound:.3g})"


def record(model: PreTrainedModel, ids: Tensor) -> Record:
    """Run `model` on the id list and keep every value which passes by."""
    seen = Record()
    family = sys.modules[type(model).__module__]
    with ExitStack() as observed:
        for name, module in model.named_modules():
            hook = module.register_forward_hook(_module_observer(seen, name))
            observed.callback(hook.remove)
        observed.enter_context(
            patch.object(
                family,
                "eager_attention_forward",
                _attention_observer(seen, family.eager_attention_forward),
            )
        )
        if hasattr(family, "apply_rotary_pos_emb"):
            observed.enter_context(
                patch.object(
                    family,
                    "apply_rotary_pos_emb",
                    _rotary_observer(seen, family.apply_rotary_pos_emb),
                )
            )
        with torch.no_grad():
            result = model(ids[None], labels=ids[None], use_cache=False)
    seen.logits, seen.loss = result.logits[0], result.loss
    assert len(seen.attention) == model.config.num_hidden_layers, "attention was not observed"
    assert len(seen.before_rotation) in (0, len(seen.attention)), "rotation was not observed"
    return seen


def _module_observer(seen: Record, name: str):
    def hook(_module, args, output):
        if args and isinstance(args[0], Tensor):
            seen.inputs[name] = args[0][0]
        if isinstance(output, Tensor):
            seen.outputs[name] = output[0]

    return hook


def _attention_observer(seen: Record, attention):
    def observed(module, query, key, value, attention_mask, **options):
        z, pattern = attention(module, query, key, value, attention_mask, **options)
        masked = (attention_mask[0, 0] < 0).expand(query.shape[2], key.shape[2])
        call = AttentionCall(
            q=query[0],
            k=key[0],
            v=value[0],
            masked=masked,
            scaling=options["scaling"],
            softcap=options.get("softcap"),
            z=z[0],
            pattern=pattern[0],
        )
        seen.attention.append(call)
        return z, pattern

    return observed


def _rotary_observer(seen: Record, rotate):
    def observed(q, k, *args, **kwargs):
        seen.before_rotation.append((q[0], k[0]))
        return rotate(q, k, *args, **kwargs)

    return observed


def build_sites(model: PreTrainedModel, ids: Tensor, seen: Record) -> Sites:
    """All sites of the forward, in the order in which it computes them."""
    layout = LAYOUTS[model.config.model_type]
    sites: Sites = {"hook_tokens": ids.float()}
    stream = sites["hook_embed"] = seen.outputs[layout.embed]
    if layout.pos_embed:
        sites["hook_pos_embed"] = seen.outputs[layout.pos_embed]
        stream = stream + sites["hook_pos_embed"]
    for layer in range(model.config.num_hidden_layers):
        block = block_sites(model, layout, seen, layer)
        assert_close(block["hook_resid_pre"], stream, f"input of block {layer}")
        stream = block["hook_resid_post"]
        sites |= {f"blocks.{layer}.{name}": value for name, value in block.items()}
    sites |= head_sites(model, layout, seen, ids)
    assert_close(seen.inputs[layout.final_norm], stream, "input of the final norm")
    return {name: value.detach().clone().contiguous() for name, value in sites.items()}


def block_sites(model: PreTrainedModel, layout: Layout, seen: Record, layer: int) -> Sites:
    """The sites of one block, without the `blocks.{l}.` in front."""
    block = f"{layout.blocks}.{layer}"

    def norm(site: str, name: str) -> Sites:
        return norm_sites(model, seen, f"{block}.{name}", site)

    resid_pre = seen.inputs[block]
    sites: Sites = {"hook_resid_pre": resid_pre}
    sites |= norm("ln1", layout.ln1)
    sites |= attention_sites(model, layout, seen, layer)
    attn_out = sites["attn.hook_out"]
    if layout.ln1_post:
        sites |= norm("ln1_post", layout.ln1_post)
        attn_out = sites["ln1_post.hook_out"]
    sites["hook_attn_out"] = attn_out
    resid_mid = sites["hook_resid_mid"] = seen.inputs[f"{block}.{layout.ln2}"]
    sites |= norm("ln2", layout.ln2)
    sites |= mlp_sites(model, layout, seen, block)
    mlp_out = sites["mlp.hook_out"]
    if layout.ln2_post:
        sites |= norm("ln2_post", layout.ln2_post)
        mlp_out = sites["ln2_post.hook_out"]
    sites["hook_mlp_out"] = mlp_out
    resid_post = sites["hook_resid_post"] = seen.outputs[block]

    assert_close(resid_pre + attn_out, resid_mid, f"{block}: residual after attention")
    assert_close(resid_pre + attn_out + mlp_out, resid_post, f"{block}: residual after the MLP")
    return sites


def norm_sites(model: PreTrainedModel, seen: Record, name: str, site: str) -> Sites:
    """Scale, normalized value and output of the norm module `name`."""
    norm = model.get_submodule(name)
    x, out = seen.inputs[name], seen.outputs[name]
    if isinstance(norm, nn.LayerNorm):
        x = x - x.mean(-1, keepdim=True)
    epsilon = norm.variance_epsilon if hasattr(norm, "variance_epsilon") else norm.eps
    scale = (x.pow(2).mean(-1, keepdim=True) + epsilon).sqrt()
    normalized = x / scale
    weight = norm.weight + 1.0 if "Gemma" in type(norm).__name__ else norm.weight
    bias = getattr(norm, "bias", None)
    assert_close(normalized * weight + (0.0 if bias is None else bias), out, name)
    return {
        f"{site}.hook_scale": scale,
        f"{site}.hook_normalized": normalized,
        f"{site}.hook_out": out,
    }


def attention_sites(model: PreTrainedModel, layout: Layout, seen: Record, layer: int) -> Sites:
    """From the projections to the output of the attention module."""
    call = seen.attention[layer]
    name = f"{layout.blocks}.{layer}.{layout.attn_proj}"
    rotated = bool(seen.before_rotation)
    q, k = seen.before_rotation[layer] if rotated else (call.q, call.k)
    sites: Sites = {
        "attn.hook_q": q.transpose(0, 1),
        "attn.hook_k": k.transpose(0, 1),
        "attn.hook_v": call.v.transpose(0, 1),
    }
    if rotated:
        sites["attn.hook_rot_q"] = call.q.transpose(0, 1)
        sites["attn.hook_rot_k"] = call.k.transpose(0, 1)

    group = call.q.shape[0] // call.k.shape[0]
    keys, values = (x.repeat_interleave(group, dim=0) for x in (call.k, call.v))
    raw = sites["attn.hook_scores_raw"] = call.q @ keys.transpose(1, 2) * call.scaling
    capped = raw if call.softcap is None else torch.tanh(raw / call.softcap) * call.softcap
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


def mlp_sites(model: PreTrainedModel, layout: Layout, seen: Record, block: str) -> Sites:
    """From the input projections to the output of the MLP module."""
    mlp = model.get_submodule(f"{block}.{layout.mlp}")
    activation = mlp.act_fn if hasattr(mlp, "act_fn") else mlp.act
    pre = seen.outputs[f"{block}.{layout.mlp_pre}"]
    sites: Sites = {"mlp.hook_pre": pre}
    post = activation(pre)
    if layout.mlp_up:
        up = sites["mlp.hook_pre_linear"] = seen.outputs[f"{block}.{layout.mlp_up}"]
        post = post * up
    sites["mlp.hook_post"] = seen.inputs[f"{block}.{layout.mlp_down}"]
    sites["mlp.hook_out"] = seen.outputs[f"{block}.{layout.mlp_down}"]
    assert_close(post, sites["mlp.hook_post"], f"{block}: MLP activation")
    assert_close(sites["mlp.hook_out"], seen.outputs[f"{block}.{layout.mlp}"], f"{block}: MLP")
    return sites


def head_sites(model: PreTrainedModel, layout: Layout, seen: Record, ids: Tensor) -> Sites:
    """The final norm, the unembedding, the logits and the loss."""
    sites = norm_sites(model, seen, layout.final_norm, "ln_final")
    raw = seen.outputs["lm_head"]
    sites["unembed.hook_in"] = seen.inputs["lm_head"]
    sites["unembed.hook_out"] = raw
    softcap = getattr(model.config, "final_logit_softcapping", None)
    logits = raw if softcap is None else torch.tanh(raw / softcap) * softcap
    loss = nn.functional.cross_entropy(seen.logits[:-1], ids[1:], reduction="none")
    assert_close(sites["ln_final.hook_out"] @ model.lm_head.weight.T, raw, "unembedding")
    assert_close(logits, seen.logits, "logits")
    assert_close(loss.mean(), seen.loss, "loss")
    sites["hook_logits"] = seen.logits
    sites["hook_loss"] = loss
    return sites
