"""Makes tests/goldens/heads: small models with heads for classes, tags, answers and words, and their outputs and gradients.

    python tools/goldens heads
"""

import copy
import json
import math
import shutil
import tempfile
from pathlib import Path

import torch
import transformers
from goldens.files import GOLDENS, set_weights
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

SIZES = {
    "vocab_size": 53,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 48,
}
THREE = {"num_labels": 3}
DISTIL_SIZES = {"vocab_size": 53, "dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 40, "max_position_embeddings": 48}
DECODER = SIZES | {"num_key_value_heads": 1, "bos_token_id": 1, "eos_token_id": 2}


def models() -> dict[str, PreTrainedModel]:
    t = transformers
    bert = lambda **more: t.BertConfig(**SIZES, type_vocab_size=2, layer_norm_eps=1e-3, **more)
    roberta = t.RobertaConfig(**SIZES, pad_token_id=4, type_vocab_size=1, **THREE)
    distil = lambda **more: t.DistilBertConfig(**DISTIL_SIZES, **more)
    camembert = t.CamembertConfig(**SIZES, pad_token_id=1, type_vocab_size=1, **THREE)
    special = {"pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2}
    modern = lambda **more: t.ModernBertConfig(**SIZES, local_attention=9, **special, **more)
    mpnet = t.MPNetConfig(**SIZES, **THREE)
    nomic = t.NomicBertConfig(**SIZES, **THREE)
    gte = t.GteConfig(**SIZES, pad_token_id=0, **THREE)
    electra = lambda **more: t.ElectraConfig(**SIZES, embedding_size=12, type_vocab_size=2, **more)
    albert = lambda **more: t.AlbertConfig(**(SIZES | {"num_hidden_layers": 5}), embedding_size=12, type_vocab_size=2, **more)
    deberta = lambda **more: t.DebertaV2Config(**(SIZES | {
        "relative_attention": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True,
        "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "max_relative_positions": -1,
    } | more))  # fmt: skip
    gemma = t.Gemma3TextConfig(
        **(DECODER | {"num_hidden_layers": 4}), head_dim=8, sliding_window=6, use_bidirectional_attention=True,
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"], **THREE,
    )  # fmt: skip
    qwen = lambda **more: t.Qwen3Config(**DECODER, head_dim=8, **more)
    return {
        "bert_classes": t.BertForSequenceClassification(bert(**THREE)),
        "bert_tags": t.BertForTokenClassification(bert(num_labels=5)),
        "bert_answers": t.BertForQuestionAnswering(bert()),
        "bert_choices": t.BertForMultipleChoice(bert()),
        "roberta_classes": t.RobertaForSequenceClassification(roberta),
        "distilbert_classes": t.DistilBertForSequenceClassification(distil(num_labels=1)),
        "distilbert_choices": t.DistilBertForMultipleChoice(distil()),
        "camembert_tags": t.CamembertForTokenClassification(camembert),
        "modernbert_words": t.ModernBertForMaskedLM(modern(norm_bias=True, classifier_bias=True)),
        "modernbert_classes": t.ModernBertForSequenceClassification(modern(**THREE)),
        "modernbert_mean": t.ModernBertForSequenceClassification(modern(classifier_pooling="mean", classifier_activation="silu", attention_bias=True, mlp_bias=True, **THREE)),
        "modernbert_tags": t.ModernBertForTokenClassification(modern(**THREE)),
        "modernbert_answers": t.ModernBertForQuestionAnswering(modern()),
        "mpnet_words": t.MPNetForMaskedLM(mpnet),
        "mpnet_classes": t.MPNetForSequenceClassification(mpnet),
        "mpnet_choices": t.MPNetForMultipleChoice(mpnet),
        "nomic_bert_words": t.NomicBertForMaskedLM(nomic),
        "nomic_bert_classes": t.NomicBertForSequenceClassification(nomic),
        "gte_words": t.GteForMaskedLM(gte),
        "gte_classes": t.GteForSequenceClassification(gte),
        "gte_tags": t.GteForTokenClassification(gte),
        "electra_words": t.ElectraForMaskedLM(electra()),
        "electra_classes": t.ElectraForSequenceClassification(electra(**THREE)),
        "electra_tags": t.ElectraForTokenClassification(electra(**THREE)),
        "electra_choices": t.ElectraForMultipleChoice(electra()),
        "electra_replaced": t.ElectraForPreTraining(electra(hidden_act="relu")),
        "albert_words": t.AlbertForMaskedLM(albert()),
        "albert_classes": t.AlbertForSequenceClassification(albert(num_hidden_groups=2, **THREE)),
        "albert_tags": t.AlbertForTokenClassification(albert(**THREE)),
        "albert_answers": t.AlbertForQuestionAnswering(albert()),
        "deberta_v2_words": t.DebertaV2ForMaskedLM(deberta(pos_att_type=["c2p"], share_att_key=False)),
        "deberta_v2_classes": t.DebertaV2ForSequenceClassification(deberta(**THREE)),
        "deberta_v2_tags": t.DebertaV2ForTokenClassification(deberta(share_att_key=False, position_buckets=-1, norm_rel_ebd="none", max_relative_positions=7, **THREE)),
        "deberta_v2_answers": t.DebertaV2ForQuestionAnswering(deberta(pos_att_type=["p2c"], position_biased_input=True, type_vocab_size=2)),
        "deberta_v2_convolution": t.DebertaV2ForTokenClassification(deberta(conv_kernel_size=3, conv_act="gelu", **THREE)),
        "gemma3_both_ways": t.Gemma3TextForSequenceClassification(gemma),
        "qwen3_reward": t.Qwen3ForSequenceClassification(qwen(num_labels=1, pad_token_id=4)),
        "qwen3_tags": t.Qwen3ForTokenClassification(qwen(num_labels=4)),
        "qwen3_answers": t.Qwen3ForQuestionAnswering(qwen()),
    }  # fmt: skip


def outputs_of(model: PreTrainedModel, ids: torch.Tensor) -> torch.Tensor:
    """[labels], or [n, labels] of a head that reads each token."""
    name = type(model).__name__
    if name.endswith("ForMultipleChoice"):
        return model(input_ids=ids[None, None]).logits[0]
    result = model(input_ids=ids[None])
    if name.endswith("ForQuestionAnswering"):
        return torch.stack([result.start_logits[0], result.end_logits[0]], 1)
    return result.logits[0]


def gradients_of(model: PreTrainedModel, ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """Those of Σ cos(i) · output i, under the names of the file, as save_pretrained() converts them."""
    model.zero_grad()
    outputs = outputs_of(model, ids).flatten()
    (outputs * torch.tensor([math.cos(i) for i in range(len(outputs))], dtype=outputs.dtype)).sum().backward()
    result = copy.deepcopy(model)
    with torch.no_grad():
        for own, copied in zip(model.parameters(), result.parameters(), strict=True):
            copied.copy_(torch.zeros_like(own) if own.grad is None else own.grad)
    with tempfile.TemporaryDirectory() as folder:
        result.save_pretrained(folder)
        return {name: value.float() for name, value in load_file(Path(folder) / "model.safetensors").items()}


def main() -> None:
    # Id 4, which is padding for qwen3_reward, ends the second text.
    texts = [[7], [5 + (7 * i * i + 3 * i) % 40 for i in range(20)] + [4]]
    for name, model in models().items():
        set_weights(model, seed=17, spread=0.25)
        folder = GOLDENS / "heads" / name
        shutil.rmtree(folder, ignore_errors=True)
        model.eval()
        model.set_attn_implementation("eager")
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        model.double()
        golden = {}
        for i, text in enumerate(texts):
            ids = torch.tensor(text)
            with torch.no_grad():
                golden[f"ids.{i}"] = ids.float()
                golden[f"output.{i}"] = outputs_of(model, ids).float().contiguous()
        save_file(golden, folder / "golden.safetensors")
        save_file(gradients_of(model, torch.tensor(texts[-1])), folder / "gradients.safetensors")
        print(json.dumps({"case": name, "parameters": sum(p.numel() for p in model.parameters())}))
