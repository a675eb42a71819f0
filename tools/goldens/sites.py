"""Runs a transformers model once and names the values that it computed as sites.

`record` observes the real forward: the input and output of every module, the arguments and results
of the eager attention function, and those of the rotary embedding. `build_sites` names these values
as TransformerLens does and derives the few that no module returns (norm scales, raw scores, the
contribution of each head). Assertions check that the derived values lead to the values that the model
returned.
"""

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import torch
from goldens.mixers import Scans, mixer_of, mixer_sites, observe_scans
from goldens.values import Sites, assert_close
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

ROTATES_ALONE = ("GPTJForCausalLM", "CodeGenForCausalLM")  # first k, then q, [1, T, heads, elements]
ROTATES_Q_FIRST = ("Gemma3nForCausalLM", "Gemma4ForCausalLM")  # then k, unless it is that of an earlier layer

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
    has_states: bool = False  # a block's parts are found by their names: they differ from layer to layer


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
    sinks: Tensor | None = None  # [heads]


@dataclass
class Record:
    """Everything observed during one forward."""

    inputs: dict[str, Tensor] = field(default_factory=dict)
    second_inputs: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, Tensor] = field(default_factory=dict)
    routed: dict[str, tuple[Tensor, ...]] = field(default_factory=dict)
    attention: list[AttentionCall] | dict[int, AttentionCall] = field(default_factory=list)  # by layer
    scans: Scans = field(default_factory=Scans)  # of layers with a state, as far as build_sites() has not taken them
    first_calls: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)  # input and output
    streams: dict[str, Tensor] = field(default_factory=dict)  # [T, n, d]; what blocks made of the active one [T, d]
    before_rotation: dict[int, tuple[Tensor, Tensor | None]] = field(default_factory=dict)  # by layer
    rotated: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    logits: Tensor | None = None
    loss: Tensor | None = None


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
            kind, rotate = type(model).__name__, family.apply_rotary_pos_emb
            observer = _rotary_observer
            if kind in ROTATES_ALONE:
                observer = _single_rotary_observer
            elif kind in ROTATES_Q_FIRST:
                observer = _query_first_observer
            observed.enter_context(patch.object(family, "apply_rotary_pos_emb", observer(seen, rotate)))
        _observe_streams(seen, model, observed)
        observe_scans(family, seen.scans, observed)
        if hasattr(family, "apply_rotary_emb"):  # Llama 4: tokens before heads
            observed.enter_context(
                patch.object(family, "apply_rotary_emb", _rotary_observer(seen, family.apply_rotary_emb, True))
            )
        with torch.no_grad():
            result = model(ids[None], labels=ids[None], use_cache=False)
    logits = result.prediction_logits if hasattr(result, "prediction_logits") else result.logits
    seen.logits, seen.loss = logits[0], result.loss
    if not seen.scans.convolutions:
        assert len(seen.attention) == model.config.num_hidden_layers, "attention was not observed"
    return seen


def _module_observer(seen: Record, name: str):
    def hook(_module, args, output):
        if args and isinstance(args[0], Tensor):
            seen.inputs[name] = args[0][0] if args[0].ndim > 2 else args[0]
        if len(args) > 1 and isinstance(args[1], Tensor):
            seen.second_inputs[name] = args[1][0]
        if isinstance(output, Tensor):
            # a copy: some models add to a module's output in place
            seen.outputs[name] = (output[0] if output.ndim == 3 else output).clone()
            if name in seen.inputs:
                seen.first_calls.setdefault(name, (seen.inputs[name], seen.outputs[name]))
        elif name.endswith((".gate", ".router")):  # logits, the weights of the chosen experts, their indices
            seen.routed[name] = output
        elif isinstance(output, tuple) and isinstance(output[0], Tensor):
            seen.outputs[name] = output[0][0] if output[0].ndim == 3 else output[0]

    return hook


def _observe_streams(seen: Record, model: PreTrainedModel, observed: ExitStack):
    """AltUp's streams [n, 1, T, d] before, in and after each block, and the inputs of per-layer embeddings."""

    def rows(streams: Tensor) -> Tensor:
        return streams[:, 0].transpose(0, 1).clone()

    def observe(name: str, block: nn.Module):
        def after(_module, args, output):
            seen.inputs[name], seen.outputs[name] = rows(args[0]).flatten(1), rows(output).flatten(1)
            seen.second_inputs[name] = args[2][0]

        predict, correct = block.altup.predict, block.altup.correct

        def predicted(streams):
            result = predict(streams)
            seen.streams[f"{name}.predicted"] = rows(result)
            return result

        def corrected(predictions, made):
            result = correct(predictions, made)
            seen.streams[f"{name}.corrected"], seen.streams[f"{name}.made"] = rows(result), made[0]
            return result

        hook = block.register_forward_hook(after)
        observed.callback(hook.remove)
        observed.enter_context(patch.object(block.altup, "predict", predicted))
        observed.enter_context(patch.object(block.altup, "correct", corrected))

    for name, module in model.named_modules():
        if hasattr(module, "altup"):
            observe(name, module)


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
            sinks=getattr(module, "sinks", None),
        )
        seen.attention.append(call)
        return z, pattern

    return observed


def _rotary_observer(seen: Record, rotate, tokens_first: bool = False):
    def heads(x: Tensor) -> Tensor:
        return x[0].transpose(0, 1) if tokens_first else x[0]

    def observed(q, k, *args, **kwargs):
        result = rotate(q, k, *args, **kwargs)
        seen.before_rotation[len(seen.attention)] = (heads(q), heads(k))
        seen.rotated[len(seen.attention)] = (heads(result[0]), heads(result[1]))
        return result

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


def _query_first_observer(seen: Record, rotate):
    def observed(tensor, cos, sin, **kwargs):
        layer, heads = len(seen.attention), tensor[0].transpose(0, 1)
        known = seen.before_rotation.get(layer)
        seen.before_rotation[layer] = (heads, None) if known is None else (known[0], heads)
        return rotate(tensor, cos, sin, **kwargs)

    return observed


def build_sites(model: PreTrainedModel, layout: Layout, ids: Tensor, seen: Record) -> Sites:
    """All sites of the forward, in the order in which it computes them."""
    if seen.scans.convolutions:
        place_attention(model, layout, seen)
    sites: Sites = {"hook_tokens": ids.float()}
    scale = getattr(model.config, "embedding_multiplier", 1.0)
    if getattr(model.config, "mup_enabled", False):
        scale = model.config.hidden_size**0.5
    stream = sites["hook_embed"] = seen.outputs[layout.embed] * scale
    if layout.pos_embed:
        sites["hook_pos_embed"] = seen.outputs[layout.pos_embed]
        stream = stream + sites["hook_pos_embed"]
    if layout.embed_norm:
        norm = model.get_submodule(layout.embed_norm)
        sites |= normalization_sites(norm, *seen.first_calls[layout.embed_norm], layout.embed_norm, "ln_embed")
        stream = sites["ln_embed.hook_out"]
    for layer in range(model.config.num_hidden_layers):
        block = block_sites(model, layout, seen, layer)
        assert_close(block["hook_resid_pre"][:, : stream.shape[1]], stream, f"input of block {layer}")
        stream = block["hook_normalized_resid_post" if layout.norms_sum else "hook_resid_post"]
        sites |= {f"blocks.{layer}.{name}": value for name, value in block.items()}
    sites |= head_sites(model, layout, seen, ids)
    if layout.final_norm and not seen.streams:
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

    if layout.has_states:
        return hybrid_block_sites(model, layout, seen, layer)
    resid_pre = seen.inputs[block]
    sites: Sites = {"hook_resid_pre": resid_pre}
    if seen.streams:
        return sites | block_sites_of_streams(model, layout, seen, layer)
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
    if hasattr(model.get_submodule(block), "experts"):
        sites |= side_by_side_sites(model, layout, seen, block)
    elif hasattr(model.get_submodule(f"{block}.{layout.mlp}".rstrip(".")), "experts"):
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
    added = attn_out + mlp_out
    if hasattr(model.get_submodule(block), "per_layer_input_gate"):
        sites["hook_resid_mid_ple"] = seen.inputs[f"{block}.per_layer_input_gate"]
        assert_close(resid_pre + added, sites["hook_resid_mid_ple"], f"{block}: residual after the MLP")
        sites |= per_layer_sites(model, seen, block)
        added = added + sites["hook_ple_out"]
    resid_post = sites["hook_resid_post"] = seen.outputs[block]
    scalar = getattr(model.get_submodule(block), "layer_scalar", 1.0)
    assert_close((resid_pre + added) * scalar, resid_post, f"{block}: residual after the block")
    return sites


def attention_of(block: nn.Module) -> str | None:
    """The name of the block's attention; None if it has none."""
    names = (name for name, module in block.named_children() if type(module).__name__.endswith("Attention"))
    return next((name for name in names if not hasattr(block.get_submodule(name), "conv1d")), None)


def place_attention(model: PreTrainedModel, layout: Layout, seen: Record) -> None:
    """Gives the calls of attention the numbers of their layers."""
    blocks = model.get_submodule(layout.blocks)
    layers = [layer for layer, block in enumerate(blocks) if attention_of(block)]
    seen.attention = dict(zip(layers, seen.attention, strict=True))
    seen.before_rotation = {layers[i]: value for i, value in seen.before_rotation.items()}
    seen.rotated = {layers[i]: value for i, value in seen.rotated.items()}
    for layer in layers:  # Qwen's queries and output gates are one projection
        name = f"{layout.blocks}.{layer}.self_attn"
        heads, size = seen.attention[layer].z.shape[1:]
        both = seen.outputs.get(f"{name}.q_proj")
        if both is not None and both.shape[1] == 2 * heads * size and f"{name}.kv_a_layernorm" not in seen.outputs:
            q, gate = both.view(-1, heads, 2 * size).chunk(2, dim=-1)
            seen.outputs[f"{name}.q_proj"], seen.outputs[f"{name}.gate_proj"] = q.flatten(1), gate.flatten(1)


def hybrid_block_sites(model: PreTrainedModel, layout: Layout, seen: Record, layer: int) -> Sites:
    """The sites of a block of a family with states: of a mixer with a state, attention, an FFN, or some of them."""
    block = f"{layout.blocks}.{layer}"
    module = model.get_submodule(block)

    def norm(site: str, *names: str) -> Sites:
        own = next((name for name in names if f"{block}.{name}" in seen.outputs), None)
        return norm_sites(model, seen, f"{block}.{own}", site) if own else {}

    stream = seen.inputs[block]
    sites: Sites = {"hook_resid_pre": stream}
    scale = residual_scale(model.config)
    norms_after = "post_feedforward_layernorm" in dict(module.named_children())
    mixer, attention = mixer_of(module), attention_of(module)
    added = torch.zeros_like(stream)
    if mixer or attention:
        sites |= norm("ln1", "input_layernorm", "operator_norm", "norm")
    if mixer:
        name, slot = mixer
        own = mixer_sites(module.get_submodule(name), slot, seen.outputs, f"{block}.{name}", seen.scans)
        factor = getattr(module, "ssm_out_multiplier", 1.0)
        out = own[f"{slot}.hook_out"] * factor * scale
        sites |= {f"{slot}.hook_in": sites["ln1.hook_out"]} | own | {"hook_mixer_out": out}
        added = added + out
    if attention:
        proj = next(n for n in ("o_proj", "out_proj") if f"{block}.{attention}.{n}" in seen.outputs)
        normed = [f"{attention}.{letter}_layernorm" for letter in "qk"]
        names = dict(zip(("q_norm", "k_norm"), normed)) if f"{block}.{normed[0]}" in seen.outputs else {}
        sites |= attention_sites(model, replace(layout, attn_proj=f"{attention}.{proj}", **names), seen, layer)
        out = sites["attn.hook_out"] * getattr(module, "attn_out_multiplier", 1.0) * scale
        if norms_after:
            sites |= norm("ln1_post", "post_attention_layernorm")
            out = sites["ln1_post.hook_out"]
        sites["hook_attn_out"] = out
        added = added + out
    children = dict(module.named_children())
    ffn = next((n for n in ("mlp", "feed_forward", "block_sparse_moe", "shared_mlp") if n in children), None)
    if ffn and (mixer or attention):
        stream = stream + added
        sites["hook_resid_mid"], added = stream, torch.zeros_like(stream)
    elif not (mixer or attention):
        ffn = "mixer"
    if ffn:
        if not norms_after:
            after = ("pre_ff_layernorm", "ffn_norm", "post_attention_layernorm")
            sites |= norm("ln2", *(after if mixer or attention else ("norm",)))
        has_experts = hasattr(module.get_submodule(ffn), "experts")
        own = moe_sites if has_experts else dense_sites
        sites |= own(model, replace(layout, mlp=ffn), seen, block)
        out = sites["mlp.hook_out"] * scale
        if norms_after:
            sites |= norm("ln2_post", "post_feedforward_layernorm")
            out = sites["ln2_post.hook_out"]
        sites["hook_mlp_out"] = added = out
    sites["hook_resid_post"] = seen.outputs[block]
    assert_close(stream + added, sites["hook_resid_post"], f"{block}: residual after the block")
    return sites


def dense_sites(model: PreTrainedModel, layout: Layout, seen: Record, block: str) -> Sites:
    """An FFN whose projections are found by their names."""
    name = f"{block}.{layout.mlp}"
    mlp = model.get_submodule(name)
    parts = dict(mlp.named_children())
    pre_scale, out_scale = getattr(mlp, "gate_multiplier", 1.0), getattr(mlp, "down_multiplier", 1.0)
    if "input_linear" in parts:
        (pre, up), down = seen.outputs[f"{name}.input_linear"].chunk(2, dim=-1), "output_linear"
    else:
        names = ("w1", "w3", "w2") if "w1" in parts else ("gate_proj", "up_proj", "down_proj")
        pre, up = (seen.outputs.get(f"{name}.{part}") for part in names[:2])
        down = names[2]
        if pre is None:  # without a gate
            pre, up = up, None
    pre = pre * pre_scale
    slot = next((slot for slot in ("act_fn", "activation") if hasattr(mlp, slot)), None)
    post = (getattr(mlp, slot) if slot else nn.functional.silu)(pre)
    sites: Sites = {"mlp.hook_pre": pre}
    if up is not None:
        sites["mlp.hook_pre_linear"] = up
        post = post * up
    sites["mlp.hook_post"] = seen.inputs[f"{name}.{down}"]
    sites["mlp.hook_out"] = seen.outputs[f"{name}.{down}"] * out_scale
    assert_close(post, sites["mlp.hook_post"], f"{name}: activation")
    assert_close(sites["mlp.hook_out"], seen.outputs[name], f"{name}: output")
    return sites


def block_sites_of_streams(model: PreTrainedModel, layout: Layout, seen: Record, layer: int) -> Sites:
    """The sites of a block that computes one of several streams, after the first."""
    block = f"{layout.blocks}.{layer}"

    def norm(site: str, name: str) -> Sites:
        return norm_sites(model, seen, f"{block}.{name}", site)

    predicted, corrected = seen.streams[f"{block}.predicted"], seen.streams[f"{block}.corrected"]
    active = predicted[:, model.config.altup_active_idx]
    sites: Sites = {"altup.hook_predicted": predicted} | norm("ln1", layout.ln1)
    sites |= attention_sites(model, layout, seen, layer) | norm("ln1_post", layout.ln1_post)
    attn_out = sites["hook_attn_out"] = sites["ln1_post.hook_out"]
    sites["laurel.hook_pre"] = seen.outputs[f"{block}.laurel.linear_left"]
    sites |= norm("laurel.ln", "laurel.post_laurel_norm")
    laurel_out = sites["laurel.hook_out"] = seen.outputs[f"{block}.laurel"]
    assert_close(sites["ln1.hook_out"] + sites["laurel.ln.hook_out"], laurel_out, f"{block}: LAuReL")
    resid_mid = sites["hook_resid_mid"] = seen.inputs[f"{block}.{layout.ln2}"]
    assert_close((active + attn_out + laurel_out) * 0.5**0.5, resid_mid, f"{block}: residual after attention")
    sites |= norm("ln2", layout.ln2) | mlp_sites(model, layout, seen, block) | norm("ln2_post", layout.ln2_post)
    mlp_out = sites["hook_mlp_out"] = sites["ln2_post.hook_out"]
    made = sites["hook_resid_mid_ple"] = seen.streams[f"{block}.made"]
    assert_close(resid_mid + mlp_out, made, f"{block}: residual after the MLP")
    sites["altup.hook_corrected"] = corrected
    sites |= per_layer_sites(model, seen, block)
    resid_post = sites["hook_resid_post"] = seen.outputs[block]
    added = corrected.clone()
    added[:, 1:] += sites["hook_ple_out"][:, None]
    assert_close(added.flatten(1), resid_post, f"{block}: residual after the block")
    return sites


def per_layer_sites(model: PreTrainedModel, seen: Record, block: str) -> Sites:
    """A per-layer embedding: its gate, its input and what it adds to the stream."""
    given, gate = seen.second_inputs[block], seen.outputs[f"{block}.per_layer_input_gate"]
    post = seen.inputs[f"{block}.per_layer_projection"]
    assert_close(model.get_submodule(block).act_fn(gate) * given, post, f"{block}: gated per-layer input")
    norm = norm_sites(model, seen, f"{block}.post_per_layer_input_norm", "ln3_post")
    return {
        "hook_per_layer_input": given,
        "ple.hook_pre": gate,
        "ple.hook_post": post,
        "ple.hook_out": seen.outputs[f"{block}.per_layer_projection"],
        **norm,
        "hook_ple_out": norm["ln3_post.hook_out"],
    }


def norm_sites(model: PreTrainedModel, seen: Record, name: str, site: str) -> Sites:
    """Scale, normalized value and output of the norm module `name`."""
    return normalization_sites(model.get_submodule(name), seen.inputs[name], seen.outputs[name], name, site)


def weight_offset(norm: nn.Module) -> float:
    """1 if the norm stores the difference of its weight from one."""
    kind = type(norm).__name__
    if kind in ("Qwen3NextRMSNorm", "Qwen3_5RMSNorm", "Qwen3_5MoeRMSNorm"):
        return 1.0
    return 1.0 if ("Gemma" in kind and not any(name in kind for name in ("Gemma3n", "Gemma4"))) or "1P" in kind else 0.0


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


def latent_sites(model: PreTrainedModel, seen: Record, name: str, layer: int) -> Sites:
    """From the projections to the keys and values by head of latent attention, the module `name`."""
    attention, call = model.get_submodule(name), seen.attention[layer]
    nope = attention.qk_nope_head_dim
    sites: Sites = {}
    queries = call.q
    scale = query_scale(model, layer, queries.shape[1], True)
    if scale is not None:
        queries = queries / scale[:, None]
        sites["attn.hook_query_scale"] = scale
    for letter, norm in ("q", f"{name}.q_a_layernorm"), ("kv", f"{name}.kv_a_layernorm"):
        if norm not in seen.outputs:
            continue
        of_norm = norm_sites(model, seen, norm, f"attn.{letter}_latent_norm")
        out = of_norm.pop(f"attn.{letter}_latent_norm.hook_out")
        sites |= of_norm | {f"attn.hook_{letter}_latent": out}
    for letter, value in ("q", queries), ("k", call.k):
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
        return latent_sites(model, seen, module, layer) | score_sites(model, seen, name, call)
    rotated = layer in seen.before_rotation  # else the layer has no RoPE
    scale = query_scale(model, layer, call.q.shape[1], rotated)
    q, k = seen.before_rotation[layer] if rotated else (call.q, call.k)
    is_given = k is None  # keys and values are those of an earlier layer
    k = call.k if is_given else k
    if scale is not None and not rotated:  # the queries are projected, and scaled
        projected = seen.outputs[f"{layout.blocks}.{layer}.{layout.q_proj}"]
        q = projected.view(call.q.shape[1], call.q.shape[0], -1).transpose(0, 1)
    # some models pass only the rotated part of each head
    q, k = (torch.cat((a, b[..., a.shape[-1] :]), -1) for a, b in ((q, call.q), (k, call.k)))
    sites: Sites = {"attn.hook_v": call.v.transpose(0, 1)}
    block = f"{layout.blocks}.{layer}"
    if layout.norm_after_rope and rotated:
        sites |= {"attn.hook_q": q.transpose(0, 1), "attn.hook_k": k.transpose(0, 1)}
        paths = ("q", layout.q_norm, call.q), ("k", layout.k_norm, call.k)
        for (letter, path, out), x in zip(paths, seen.rotated[layer], strict=True):
            norm, x = f"{block}.{path}", x.transpose(0, 1)
            sites[f"attn.hook_rot_{letter}"] = x
            sites |= normalization_sites(
                model.get_submodule(norm), x, out.transpose(0, 1), norm, f"attn.{letter}_norm"
            )
        rotated = False
    elif f"{block}.{layout.q_norm}" in seen.outputs:
        sites |= qk_norm_sites(model, seen, block, layout.q_proj, layout.q_norm, "q", q)
        if is_given:
            sites["attn.hook_k"] = call.k.transpose(0, 1)
        else:
            sites |= qk_norm_sites(model, seen, block, layout.k_proj, layout.k_norm, "k", k)
        if f"{block}.self_attn.v_norm" in seen.outputs:
            sites |= v_norm_sites(model, seen, block, layout, call.v.transpose(0, 1))
    else:
        sites |= {"attn.hook_q": q.transpose(0, 1), "attn.hook_k": k.transpose(0, 1)}
    if rotated:
        rot_q = call.q if scale is None else seen.rotated[layer][0]
        sites["attn.hook_rot_q"] = rot_q.transpose(0, 1)
        if not is_given:
            sites["attn.hook_rot_k"] = call.k.transpose(0, 1)
    if scale is not None:
        before = q if not rotated else seen.rotated[layer][0]
        assert_close(before * scale[:, None], call.q, f"{name}: scaled queries")
        sites["attn.hook_query_scale"] = scale
    return sites | score_sites(model, seen, name, call)


def score_sites(model: PreTrainedModel, seen: Record, name: str, call: AttentionCall) -> Sites:
    """From the scores to the output of the projection `name`."""
    block = name.rsplit(".", 2)[0]
    sites: Sites = {}
    group = call.q.shape[0] // call.k.shape[0]
    keys, values = (x.repeat_interleave(group, dim=0) for x in (call.k, call.v))
    raw = sites["attn.hook_scores_raw"] = call.q @ keys.transpose(1, 2) * call.scaling
    biased = raw + call.bias
    capped = biased if call.softcap is None else torch.tanh(biased / call.softcap) * call.softcap
    scores = sites["attn.hook_attn_scores"] = capped.masked_fill(call.masked, -torch.inf)
    sites["attn.hook_z"] = call.z
    pattern = call.pattern
    assert torch.all(pattern[:, call.masked] == 0), f"{name}: masked entries are not zero"
    if call.sinks is not None:
        sinks = call.sinks[:, None, None].expand(*scores.shape[:2], 1)
        both = torch.cat((scores, sinks), -1).softmax(-1)
        sites["attn.hook_sink"] = both[..., -1].T
        if type(model).__name__.startswith("Granite"):  # it scales z, and returns the pattern without a sink
            pattern = pattern * (1 - both[..., -1:])
        assert_close(both[..., :-1], pattern, f"{name}: pattern")
    else:
        assert_close(scores.softmax(-1), pattern, f"{name}: pattern")
    sites["attn.hook_pattern"] = pattern
    assert_close((pattern @ values).transpose(0, 1), call.z, f"{name}: z")
    z = call.z
    if f"{block}.self_attn.gate_proj" in seen.outputs:
        sites["attn.hook_gate"] = seen.outputs[f"{block}.self_attn.gate_proj"].sigmoid().view(z.shape)
        z = z * sites["attn.hook_gate"]
    assert_close(z.flatten(1), seen.inputs[name], f"{name}: its input is not z")

    projection, out = model.get_submodule(name), seen.outputs[name]
    weight = projection.weight if isinstance(projection, Conv1D) else projection.weight.T
    per_head = weight.reshape(z.shape[1], z.shape[2], -1)
    result = sites["attn.hook_result"] = torch.einsum("thk,hkd->thd", z, per_head)
    bias = 0.0 if projection.bias is None else projection.bias
    assert_close(result.sum(1) + bias, out, f"{name}: sum of the heads")
    sites["attn.hook_out"] = out
    return sites


def query_scale(model: PreTrainedModel, layer: int, tokens: int, rotated: bool) -> Tensor | None:
    """The factor of each query of a layer; None if it has none."""
    config, positions = model.config, torch.arange(tokens).float()
    rope = getattr(config, "rope_parameters", None) or {}
    if "llama_4_scaling_beta" in rope:
        intervals = torch.floor(positions / rope["original_max_position_embeddings"])
        return 1 + rope["llama_4_scaling_beta"] * torch.log(1 + intervals)
    if getattr(config, "attn_temperature_tuning", False) and not rotated:
        return torch.log1p(torch.floor((positions + 1) / config.floor_scale)) * config.attn_scale + 1
    return None


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


def v_norm_sites(model: PreTrainedModel, seen: Record, block: str, layout: Layout, out: Tensor) -> Sites:
    """v as projected, by its own matrix or by that of k, and its norm."""
    own = f"{block}.self_attn.v_proj"
    x = seen.outputs[own if own in seen.outputs else f"{block}.{layout.k_proj}"].reshape(out.shape)
    norm = model.get_submodule(f"{block}.self_attn.v_norm")
    return {"attn.hook_v": x} | normalization_sites(norm, x, out, f"{block}: norm of v", "attn.v_norm")


def side_by_side_sites(model: PreTrainedModel, layout: Layout, seen: Record, block: str) -> Sites:
    """Experts next to a dense MLP: each part has norms of its own."""
    module = model.get_submodule(block)
    probabilities, shares, chosen = seen.routed[f"{block}.router"]
    router_norm = norm_sites(model, seen, f"{block}.router.norm", "mlp.ln_router")
    routed = router_norm["mlp.ln_router.hook_out"] * module.router.scale
    router_norm["mlp.ln_router.hook_out"] = routed
    assert_close(
        routed * module.router.scalar_root_size, seen.inputs[f"{block}.router.proj"], f"{block}: router"
    )
    sites: Sites = {
        **router_norm,
        "mlp.hook_router_logits": seen.outputs[f"{block}.router.proj"],
        "mlp.hook_router_scores": probabilities,
        "mlp.hook_expert_weights": torch.zeros_like(probabilities).scatter(1, chosen, shares),
        "mlp.hook_expert_indices": chosen.float(),
        **norm_sites(model, seen, f"{block}.pre_feedforward_layernorm_2", "mlp.ln_experts"),
    }
    x, experts = sites["mlp.ln_experts.hook_out"], module.experts
    total = torch.zeros_like(x)
    for expert in range(probabilities.shape[1]):
        tokens, ranks = torch.where(chosen == expert)
        if len(tokens) == 0:
            continue
        gate, up = (x[tokens] @ experts.gate_up_proj[expert].T).chunk(2, dim=-1)
        post = experts.act_fn(gate) * up
        out = post @ experts.down_proj[expert].T
        values = {"tokens": tokens.float(), "gate": gate, "pre": up, "post": post, "out": out}
        sites |= {f"mlp.experts.{expert}.hook_{key}": value for key, value in values.items()}
        total.index_add_(0, tokens, out * shares[tokens, ranks, None])
    assert_close(total, seen.inputs[f"{block}.post_feedforward_layernorm_2"], f"{block}: sum of the experts")
    dense = mlp_sites(model, layout, seen, block)
    names = {"pre": "gate", "pre_linear": "pre", "post": "post", "out": "out"}  # those of a gated expert
    sites |= {f"mlp.experts.shared.hook_{name}": dense[f"mlp.hook_{key}"] for key, name in names.items()}
    sites |= norm_sites(model, seen, f"{block}.post_feedforward_layernorm_2", "mlp.ln_experts_post")
    sites |= norm_sites(model, seen, f"{block}.post_feedforward_layernorm_1", "mlp.ln_shared_post")
    sites["mlp.hook_out"] = seen.inputs[f"{block}.{layout.ln2_post}"]
    both = sites["mlp.ln_shared_post.hook_out"] + sites["mlp.ln_experts_post.hook_out"]
    assert_close(both, sites["mlp.hook_out"], f"{block}: MLP and experts")
    return sites


def moe_sites(model: PreTrainedModel, layout: Layout, seen: Record, block: str) -> Sites:
    """The router, the experts that tokens chose, and the shared expert."""
    name = f"{block}.{layout.mlp}"
    mlp, x = model.get_submodule(name), seen.inputs[name]
    router = mlp.gate if hasattr(mlp, "gate") else mlp.router
    routed = seen.routed[f"{name}.{'gate' if hasattr(mlp, 'gate') else 'router'}"]
    is_input = "Llama4" in type(router).__name__  # the weight multiplies what the expert reads
    if is_input:
        shares, chosen = routed[0].topk(router.top_k)
        logits = routed[1]
    else:
        logits, shares, chosen = routed
    corrections = [
        value for key, value in mlp.state_dict().items() if key.endswith(("correction_bias", "expert_bias"))
    ]
    is_softmax = type(router).__name__.startswith(("DeepseekV2", "Mistral4"))
    is_grouped = hasattr(router, "num_group")
    is_sigmoid = is_input or (is_grouped and not is_softmax)
    is_sigmoid = is_sigmoid or any(family in type(router).__name__ for family in ("MiniMaxM2", "Afmoe", "Lfm2Moe"))
    scores = logits.sigmoid() if is_sigmoid else logits.softmax(-1)
    if corrections or is_sigmoid or is_grouped:  # the choice is by another number than the weight, and some leave it unsorted
        order = (scores + sum(corrections, torch.zeros(())).flatten()).gather(1, chosen).argsort(-1, descending=True)
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
    read = seen.outputs.get(f"{name}.fc1_latent_proj", x)  # Nemotron-H's experts may read a smaller vector
    total = torch.zeros_like(read)
    for expert in range(logits.shape[1]):
        tokens, ranks = torch.where(chosen == expert)
        if len(tokens) == 0:
            continue
        share = shares[tokens, ranks, None]
        gate, up, post, out = expert_values(mlp.experts, expert, read[tokens] * (share if is_input else 1.0))
        values = {"tokens": tokens.float(), "gate": gate, "pre": up, "post": post, "out": out}
        sites |= {f"mlp.experts.{expert}.hook_{key}": value for key, value in values.items() if value is not None}
        total.index_add_(0, tokens, out if is_input else out * share)
    total = getattr(mlp, "fc2_latent_proj", nn.Identity())(total)
    shared = next((s for s in ("shared_expert", "shared_experts", "shared_mlp") if hasattr(mlp, s)), None)
    if shared:
        inner = f"{name}.{shared}"
        values = {
            "gate": seen.outputs.get(f"{inner}.gate_proj"),
            "pre": seen.outputs[f"{inner}.up_proj"],
            "post": seen.inputs[f"{inner}.down_proj"],
            "out": seen.outputs[f"{inner}.down_proj"],
        }
        sites |= {f"mlp.experts.shared.hook_{key}": value for key, value in values.items() if value is not None}
        is_gated = hasattr(mlp, "shared_expert_gate")
        gate = torch.sigmoid(x @ mlp.shared_expert_gate.weight.T) if is_gated else 1.0
        total = total + values["out"] * gate
    out = seen.outputs[name]
    beside = f"{name.rsplit('.', 1)[0]}.shared_mlp"
    if f"{beside}.output_linear" in seen.outputs:  # Granite's, whose gate and up projection are one
        gate, up = seen.outputs[f"{beside}.input_linear"].chunk(2, dim=-1)
        shared_out = seen.outputs[f"{beside}.output_linear"]
        values = {"gate": gate, "pre": up, "post": seen.inputs[f"{beside}.output_linear"], "out": shared_out}
        sites |= {f"mlp.experts.shared.hook_{key}": value for key, value in values.items()}
        total, out = total + shared_out, out + shared_out
    sites["mlp.hook_out"] = out
    assert_close(total, out, f"{name}: sum of the experts")
    return sites


def expert_values(experts: nn.Module, expert: int, x: Tensor) -> tuple[Tensor | None, Tensor, Tensor, Tensor]:
    """Gate, up, their product and the output of one expert; without a gate None, and the activation of up."""
    kind = type(experts).__name__
    if not hasattr(experts, "gate_up_proj"):
        up = x @ experts.up_proj[expert].T
        post = experts.act_fn(up)
        return None, up, post, post @ experts.down_proj[expert].T
    if kind == "GptOssExperts":
        both = x @ experts.gate_up_proj[expert] + experts.gate_up_proj_bias[expert]
        post = experts._apply_gate(both)
        out = post @ experts.down_proj[expert] + experts.down_proj_bias[expert]
        return both[:, ::2], both[:, 1::2], post, out
    is_transposed = kind == "Llama4TextExperts"
    gate_up, down = experts.gate_up_proj[expert], experts.down_proj[expert]
    gate, up = (x @ (gate_up if is_transposed else gate_up.T)).chunk(2, dim=-1)
    post = experts.act_fn(gate) * up
    return gate, up, post, post @ (down if is_transposed else down.T)


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
    sparse = getattr(mlp, "activation_sparsity", 0.0) > 0.0
    post = activation(mlp._gaussian_topk(pre) if sparse else pre)
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
    scale *= getattr(model.config, "lm_head_multiplier", 1.0)
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
