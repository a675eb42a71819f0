"""Makes tests/goldens/pairs: small encoder–decoders, and every value of a forward in transformers.

    python tools/goldens pairs
"""

from contextlib import ExitStack
from dataclasses import dataclass

import torch
import transformers
from goldens.files import GOLDENS, set_weights, write_model
from goldens.sites import Record, Sites, _module_observer, assert_close, norm_sites
from torch import Tensor, nn
from transformers import PreTrainedModel


@dataclass(frozen=True)
class Names:
    """The names of modules; {s} is the stack, those of a sublayer are relative to the block."""

    blocks: str
    embed: str
    final_norm: str
    attn: str
    cross: str
    mlp: dict[str, str]  # of each stack
    q: str
    k: str
    v: str
    out: str
    norms: dict[str, dict[str, str]]  # of each stack: ln1, ln2, ln3
    pre: str
    up: str | None
    down: str
    head: str


BART = Names(
    blocks="model.{s}.layers",
    embed="model.{s}",
    final_norm="model.{s}.layer_norm",
    attn="self_attn",
    cross="encoder_attn",
    mlp={"encoder": "", "decoder": ""},
    q="q_proj",
    k="k_proj",
    v="v_proj",
    out="out_proj",
    norms={
        "encoder": {"ln1": "self_attn_layer_norm", "ln2": "final_layer_norm"},
        "decoder": {"ln1": "self_attn_layer_norm", "ln2": "encoder_attn_layer_norm", "ln3": "final_layer_norm"},
    },
    pre="fc1",
    up=None,
    down="fc2",
    head="lm_head",
)


def t5_names(gated: bool) -> Names:
    return Names(
        blocks="{s}.block",
        embed="{s}",
        final_norm="{s}.final_layer_norm",
        attn="layer.0.SelfAttention",
        cross="layer.1.EncDecAttention",
        mlp={"encoder": "layer.1.DenseReluDense.", "decoder": "layer.2.DenseReluDense."},
        q="q",
        k="k",
        v="v",
        out="o",
        norms={
            "encoder": {"ln1": "layer.0.layer_norm", "ln2": "layer.1.layer_norm"},
            "decoder": {"ln1": "layer.0.layer_norm", "ln2": "layer.1.layer_norm", "ln3": "layer.2.layer_norm"},
        },
        pre="wi_0" if gated else "wi",
        up="wi_1" if gated else None,
        down="wo",
        head="lm_head",
    )


T5_SIZES = {
    "vocab_size": 43,
    "d_model": 20,
    "d_kv": 6,
    "d_ff": 28,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "layer_norm_epsilon": 1e-3,
    "decoder_start_token_id": 0,
}
BART_SIZES = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 28,
    "decoder_ffn_dim": 36,
    "max_position_embeddings": 26,
}
IDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
MARIAN_IDS = {"pad_token_id": 40, "eos_token_id": 0, "decoder_start_token_id": 40}


def models() -> dict[str, tuple[PreTrainedModel, Names]]:
    """A model, and the names of its parts."""
    t = transformers
    t5 = t.T5Config(**T5_SIZES, feed_forward_proj="relu")
    t5_11 = t.T5Config(**T5_SIZES, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    mt5 = t.MT5Config(**T5_SIZES, feed_forward_proj="gated-gelu")
    bart = t.BartConfig(vocab_size=45, **BART_SIZES, **IDS)
    mbart = t.MBartConfig(vocab_size=47, **BART_SIZES, **IDS, scale_embedding=True)
    marian = t.MarianConfig(
        vocab_size=41, decoder_vocab_size=41, **BART_SIZES, **MARIAN_IDS, scale_embedding=True, activation_function="swish"
    )
    two = t.MarianConfig(
        vocab_size=41,
        decoder_vocab_size=52,
        share_encoder_decoder_embeddings=False,
        **BART_SIZES,
        **MARIAN_IDS,
        activation_function="relu",
    )
    pegasus = t.PegasusConfig(
        vocab_size=44, **BART_SIZES, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, scale_embedding=True
    )
    m2m = t.M2M100Config(vocab_size=46, **BART_SIZES, **IDS)
    return {
        "t5": (t.T5ForConditionalGeneration(t5), t5_names(gated=False)),
        "t5_11": (t.T5ForConditionalGeneration(t5_11), t5_names(gated=True)),
        "mt5": (t.MT5ForConditionalGeneration(mt5), t5_names(gated=True)),
        "bart": (t.BartForConditionalGeneration(bart), BART),
        "mbart": (t.MBartForConditionalGeneration(mbart), BART),
        "marian": (t.MarianMTModel(marian), BART),
        "marian_two": (t.MarianMTModel(two), BART),
        "pegasus": (t.PegasusForConditionalGeneration(pegasus), BART),
        "m2m_100": (t.M2M100ForConditionalGeneration(m2m), BART),
    }


def run(model: PreTrainedModel, source: Tensor, target: Tensor) -> Record:
    seen = Record()
    with ExitStack() as observed:
        for name, module in model.named_modules():
            observed.callback(module.register_forward_hook(_module_observer(seen, name)).remove)
        with torch.no_grad():
            result = model(input_ids=source[None], decoder_input_ids=target[None], use_cache=False)
    seen.logits = result.logits[0]
    return seen


def attention_sites(
    model: PreTrainedModel, names: Names, seen: Record, block: str, part: str, bias: Tensor | float, masked: Tensor | None
) -> Sites:
    """One attention sublayer, from its projections; assertions tie them to what the model computed."""
    module = f"{block}.{names.attn if part == 'attn' else names.cross}"
    heads = getattr(model.get_submodule(module), "num_heads", None) or model.get_submodule(module).n_heads
    q, k, v = (seen.outputs[f"{module}.{x}"] for x in (names.q, names.k, names.v))
    q, k, v = (x.reshape(len(x), heads, -1) for x in (q, k, v))
    scaling = 1.0 if names.out == "o" else q.shape[2] ** -0.5
    raw = torch.einsum("thd,shd->hts", q, k) * scaling
    scores = raw + bias
    if masked is not None:
        scores = scores.masked_fill(masked, -torch.inf)
    pattern = scores.softmax(-1)
    z = torch.einsum("hts,shd->thd", pattern, v)
    assert_close(z.flatten(1), seen.inputs[f"{module}.{names.out}"], f"{module}: z")
    projection = model.get_submodule(f"{module}.{names.out}")
    result = torch.einsum("thk,hkd->thd", z, projection.weight.T.reshape(z.shape[1], z.shape[2], -1))
    sites = {"q": q, "k": k, "v": v, "scores_raw": raw, "attn_scores": scores, "pattern": pattern, "z": z}
    sites |= {"result": result, "out": seen.outputs[f"{module}.{names.out}"]}
    return {f"{part}.hook_{key}": value for key, value in sites.items()}


def block_sites(
    model: PreTrainedModel, names: Names, seen: Record, stack: str, layer: int, stream: Tensor, bias: Tensor | float
) -> tuple[Sites, Tensor]:
    """The sites of one block, and the stream after it."""
    block = f"{names.blocks.format(s=stack)}.{layer}"
    norms = names.norms[stack]
    is_pre = torch.allclose(seen.inputs[f"{block}.{norms['ln1']}"], stream, atol=1e-5)
    rows = len(stream)
    causal = None if stack == "encoder" else torch.ones(rows, rows).triu(1).bool()
    sites: Sites = {"hook_resid_pre": stream}

    def after(ln: str, branch: Tensor, sum_site: str, normalized_site: str) -> Tensor:
        total = sites[sum_site] = stream + branch
        if is_pre:
            return total
        sites.update(norm_sites(model, seen, f"{block}.{norms[ln]}", ln))
        assert_close(total, seen.inputs[f"{block}.{norms[ln]}"], f"{block}: {sum_site}")
        sites[normalized_site] = sites[f"{ln}.hook_out"]
        return sites[normalized_site]

    if is_pre:
        sites |= norm_sites(model, seen, f"{block}.{norms['ln1']}", "ln1")
    sites |= attention_sites(model, names, seen, block, "attn", bias, causal)
    sites["hook_attn_out"] = sites["attn.hook_out"]
    stream = after("ln1", sites["hook_attn_out"], "hook_resid_mid", "hook_normalized_resid_mid")
    if stack == "decoder":
        if is_pre:
            sites |= norm_sites(model, seen, f"{block}.{norms['ln2']}", "ln2")
        sites |= attention_sites(model, names, seen, block, "cross_attn", 0.0, None)
        sites["hook_cross_attn_out"] = sites["cross_attn.hook_out"]
        out = sites["hook_cross_attn_out"]
        stream = after("ln2", out, "hook_resid_mid_cross", "hook_normalized_resid_mid_cross")
    last = "ln3" if stack == "decoder" else "ln2"
    if is_pre:
        sites |= norm_sites(model, seen, f"{block}.{norms[last]}", last)
    mlp = f"{block}.{names.mlp[stack]}"
    sites["mlp.hook_pre"] = seen.outputs[mlp + names.pre]
    if names.up:
        sites["mlp.hook_pre_linear"] = seen.outputs[mlp + names.up]
    sites["mlp.hook_post"] = seen.inputs[mlp + names.down]
    sites["mlp.hook_out"] = sites["hook_mlp_out"] = seen.outputs[mlp + names.down]
    stream = after(last, sites["hook_mlp_out"], "hook_resid_post", "hook_normalized_resid_post")
    return sites, stream


def stack_sites(model: PreTrainedModel, names: Names, seen: Record, stack: str, ids: Tensor) -> Sites:
    name = names.embed.format(s=stack)
    module = model.get_submodule(name)
    embedded = seen.outputs[f"{name}.embed_tokens"] * getattr(module, "embed_scale", 1.0)
    sites: Sites = {f"{stack}.hook_tokens": ids.float(), f"{stack}.hook_embed": embedded}
    stream, bias = embedded, 0.0
    if names.out == "o":
        first = model.get_submodule(f"{names.blocks.format(s=stack)}.0.{names.attn}")
        bias = first.compute_bias(len(ids), len(ids))[0]
    else:
        positions = seen.outputs[f"{name}.embed_positions"]
        sites[f"{stack}.hook_pos_embed"] = positions
        stream = stream + positions
    if f"{name}.layernorm_embedding" in seen.outputs:
        sites |= norm_sites(model, seen, f"{name}.layernorm_embedding", f"{stack}.ln_embed")
        stream = sites[f"{stack}.ln_embed.hook_out"]
    for layer in range(len(model.get_submodule(names.blocks.format(s=stack)))):
        block, stream = block_sites(model, names, seen, stack, layer, stream, bias)
        sites |= {f"{stack}.{layer}.{key}": value for key, value in block.items()}
    final = names.final_norm.format(s=stack)
    if final in seen.outputs:
        assert_close(stream, seen.inputs[final], f"{final}: its input")
        sites |= norm_sites(model, seen, final, f"{stack}.ln_final")
    return sites


def build_sites(model: PreTrainedModel, names: Names, source: Tensor, target: Tensor) -> Sites:
    """All values of the forward, by site."""
    seen = run(model, source, target)
    sites = stack_sites(model, names, seen, "encoder", source) | stack_sites(model, names, seen, "decoder", target)
    last = model.get_submodule(names.blocks.format(s="decoder"))
    final = f"decoder.{len(last) - 1}.hook_normalized_resid_post"
    sites["unembed.hook_in"] = sites.get("decoder.ln_final.hook_out", sites.get(final))
    before = seen.logits
    if getattr(model.config, "scale_decoder_outputs", False):
        before = before * model.config.d_model**0.5
    sites["unembed.hook_out"], sites["hook_logits"] = before, seen.logits
    sites["hook_loss"] = nn.functional.cross_entropy(seen.logits[:-1], target[1:], reduction="none")
    return {site: value.detach().clone().contiguous() for site, value in sites.items()}


def gradients_of(model: PreTrainedModel, source: Tensor, target: Tensor, stored: set[str]) -> Sites:
    """The mean loss of the next target ids, and its gradients, by the file's names."""
    logits = model(input_ids=source[None], decoder_input_ids=target[None], use_cache=False).logits[0]
    loss = nn.functional.cross_entropy(logits[:-1], target[1:])
    loss.backward()
    named = {
        name: weight.grad
        for name, weight in model.named_parameters(remove_duplicate=False)
        if name in stored and weight.grad is not None
    }
    return {"loss": loss.detach()[None]} | named


def main() -> None:
    source = torch.tensor([3 + (7 * i * i + 3 * i) % 37 for i in range(17)])
    target = torch.tensor([3 + (5 * i * i + i) % 37 for i in range(12)])
    for name, (model, names) in models().items():
        set_weights(model, seed=13, spread=0.2)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_(0, 0.3)
        target[0] = model.config.decoder_start_token_id
        write_model(
            GOLDENS / "pairs" / name,
            model,
            lambda: build_sites(model, names, source, target),
            lambda stored: gradients_of(model, source, target, stored),
        )
