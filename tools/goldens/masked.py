"""Makes tests/goldens/masked: small models with a head for masked tokens, and every value of a forward in transformers.

    python tools/goldens masked
"""

import torch
import transformers
from goldens.files import GOLDENS, set_weights, write_model
from goldens.sites import Layout, Sites, assert_close, attention_sites, norm_sites, record
from torch import Tensor, nn
from transformers import PreTrainedModel

BERT = {
    "blocks": "encoder.layer",
    "attn_proj": "attention.output.dense",
    "ln1": "attention.output.LayerNorm",
    "mlp_pre": "intermediate.dense",
    "mlp_down": "output.dense",
    "ln2": "output.LayerNorm",
}
DISTILBERT = {
    "blocks": "transformer.layer",
    "attn_proj": "attention.out_lin",
    "ln1": "sa_layer_norm",
    "mlp_pre": "ffn.lin1",
    "mlp_down": "ffn.lin2",
    "ln2": "output_layer_norm",
}
BERT_HEAD = ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.decoder")
ROBERTA_HEAD = ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder")
DISTILBERT_HEAD = ("vocab_transform", "vocab_layer_norm", "vocab_projector")

SIZES = {
    "vocab_size": 53,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 32,
}
DISTIL_SIZES = {
    "vocab_size": 47,
    "dim": 24,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 50,
    "max_position_embeddings": 21,
}


def models() -> dict[str, tuple[PreTrainedModel, str, dict[str, str], tuple[str, str, str]]]:
    """A model, the prefix of its names, and the names of its parts."""
    bert = transformers.BertConfig(**SIZES, type_vocab_size=3, layer_norm_eps=1e-2, hidden_act="relu")
    roberta = transformers.RobertaConfig(**SIZES, pad_token_id=4, type_vocab_size=1, layer_norm_eps=1e-5)
    xlm = transformers.XLMRobertaConfig(**SIZES, pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-5)
    distilbert = transformers.DistilBertConfig(**DISTIL_SIZES)
    return {
        "bert": (transformers.BertForMaskedLM(bert), "bert", BERT, BERT_HEAD),
        "bert_pretraining": (transformers.BertForPreTraining(bert), "bert", BERT, BERT_HEAD),
        "roberta": (transformers.RobertaForMaskedLM(roberta), "roberta", BERT, ROBERTA_HEAD),
        "xlm_roberta": (transformers.XLMRobertaForMaskedLM(xlm), "roberta", BERT, ROBERTA_HEAD),
        "distilbert": (transformers.DistilBertForMaskedLM(distilbert), "distilbert", DISTILBERT, DISTILBERT_HEAD),
    }


def build_sites(model: PreTrainedModel, base: str, parts: dict[str, str], head: tuple[str, ...], ids: Tensor) -> Sites:
    """All values of the forward, by site."""
    seen = record(model, ids)
    embeddings = f"{base}.embeddings"
    layout = Layout(
        blocks=f"{base}.{parts['blocks']}", embed="", final_norm="", attn_proj=parts["attn_proj"], mlp=""
    )
    sites: Sites = {"hook_tokens": ids.float(), "hook_embed": seen.outputs[f"{embeddings}.word_embeddings"]}
    if f"{embeddings}.token_type_embeddings" in seen.outputs:
        types = seen.outputs[f"{embeddings}.token_type_embeddings"]
        sites["hook_token_type_embed"] = types.expand(len(ids), -1)
    sites["hook_pos_embed"] = seen.outputs[f"{embeddings}.position_embeddings"]
    sites |= norm_sites(model, seen, f"{embeddings}.LayerNorm", "ln_embed")
    stream = sites["ln_embed.hook_out"]
    for layer in range(model.config.num_hidden_layers):
        block, name = {"hook_resid_pre": stream}, f"{layout.blocks}.{layer}"
        block |= attention_sites(model, layout, seen, layer)
        block["hook_attn_out"] = block["attn.hook_out"]
        block["hook_resid_mid"] = seen.inputs[f"{name}.{parts['ln1']}"]
        assert_close(stream + block["hook_attn_out"], block["hook_resid_mid"], "sum after attention")
        block |= norm_sites(model, seen, f"{name}.{parts['ln1']}", "ln1")
        block["hook_normalized_resid_mid"] = block["ln1.hook_out"]
        block["mlp.hook_pre"] = seen.outputs[f"{name}.{parts['mlp_pre']}"]
        block["mlp.hook_post"] = seen.inputs[f"{name}.{parts['mlp_down']}"]
        block["mlp.hook_out"] = block["hook_mlp_out"] = seen.outputs[f"{name}.{parts['mlp_down']}"]
        block["hook_resid_post"] = seen.inputs[f"{name}.{parts['ln2']}"]
        assert_close(block["ln1.hook_out"] + block["hook_mlp_out"], block["hook_resid_post"], "sum after the MLP")
        block |= norm_sites(model, seen, f"{name}.{parts['ln2']}", "ln2")
        stream = block["hook_normalized_resid_post"] = block["ln2.hook_out"]
        sites |= {f"blocks.{layer}.{key}": value for key, value in block.items()}
    if "cls.seq_relationship" in seen.outputs:
        sites["pooler.hook_pooler_out"] = seen.outputs[f"{base}.pooler"]
        sites["nsp_head.hook_nsp_out"] = seen.outputs["cls.seq_relationship"]
    dense, norm, unembed = head
    sites["head.hook_pre"] = seen.outputs[dense]
    sites["head.hook_post"] = seen.inputs[norm]
    sites |= norm_sites(model, seen, norm, "head.ln")
    sites["unembed.hook_in"] = sites["head.ln.hook_out"]
    sites["unembed.hook_out"] = sites["hook_logits"] = seen.outputs[unembed]
    return {site: value.detach().clone().contiguous() for site, value in sites.items()}


def gradients_of(model: PreTrainedModel, ids: Tensor, stored: set[str]) -> Sites:
    """The mean loss where each position predicts the next id, and its gradients, by the file's names.

    To it is added the loss of the next sentence, which does not follow, if the model predicts it.
    """
    result = model(input_ids=ids[None])
    logits = result.prediction_logits if hasattr(result, "prediction_logits") else result.logits
    loss = nn.functional.cross_entropy(logits[0, :-1], ids[1:])
    if hasattr(result, "seq_relationship_logits"):
        loss = loss + nn.functional.cross_entropy(result.seq_relationship_logits, torch.tensor([1]))
    loss.backward()
    named = {name: weight.grad for name, weight in model.named_parameters(remove_duplicate=False) if name in stored}
    return {"loss": loss.detach()[None]} | named


def main() -> None:
    ids = torch.tensor([5 + (7 * i * i + 3 * i) % 40 for i in range(21)])
    for name, (model, base, parts, head) in models().items():
        set_weights(model, seed=11, spread=0.25)
        write_model(
            GOLDENS / "masked" / name,
            model,
            lambda: build_sites(model, base, parts, head, ids),
            lambda stored: gradients_of(model, ids, stored),
        )
