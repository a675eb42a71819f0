"""Makes tests/goldens/sentences: folders of sentence-transformers, and what it makes of texts, in float64.

    python tools/goldens sentences

Needs sentence-transformers 6.2. A folder has golden.json: texts, and their values without a role, as queries and as
documents, the matrix of their similarities, or the scores of the first text with each.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import transformers
from goldens.files import GOLDENS, set_weights
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.cross_encoder.modules import LogitScore
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer.modules import Dropout, LayerNorm, Pooling, StaticEmbedding
from sentence_transformers.sparse_encoder.modules import SpladePooling
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] [Q] [D] a cat cats dog dogs eat eats fish sea the is deep and blue what do . , ? : query document judge yes no".split()
TEXTS = ["What do cats eat ?", "A cat eats fish , and the dog eats a fish .", "The sea is deep and blue .", "fish"]
TEMPLATE = "{% for m in messages %}[{{ 'Q' if m.role == 'query' else 'D' if m.role == 'document' else 'CLS' }}] {{ m.content }} {% endfor %}judge : [SEP]"
MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
SIZES = {"vocab_size": len(WORDS), "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 24}  # fmt: skip
BERT = transformers.BertConfig(**SIZES)
QWEN = transformers.Qwen3Config(**SIZES, num_key_value_heads=1, head_dim=4, tie_word_embeddings=False)
WORK = GOLDENS / "sentences" / ".work"


def tokenizer(template: str | None = None) -> transformers.PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if template is None:
        words.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", extra_special_tokens=["[Q]", "[D]"], model_max_length=20,
    )  # fmt: skip
    fast.chat_template = template
    return fast


def base(model: transformers.PreTrainedModel, template: str | None = None) -> str:
    set_weights(model, seed=23, spread=0.3)
    shutil.rmtree(WORK, ignore_errors=True)
    model.save_pretrained(WORK)
    tokenizer(template).save_pretrained(WORK)
    return str(WORK)


def random(module: torch.nn.Module, seed: int) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.4 + (1 if p.dim() == 1 else 0))
    return module


def bert(**more: object) -> Transformer:
    return Transformer(base(transformers.BertModel(BERT)), **more)


def words(pooling: str, activation: str) -> SparseEncoder:
    model = Transformer(base(transformers.BertForMaskedLM(BERT)), transformer_task="fill-mask")
    return SparseEncoder(modules=[model, SpladePooling(pooling, activation)])


def tokens(**expansion: object) -> MultiVectorEncoder:
    modules = [
        bert(query_expansion=expansion, document_length=9),
        random(Dense(12, 7, bias=False, activation_function=torch.nn.Identity(), module_input_name="token_embeddings"), 1),
        MultiVectorMask(skiplist_words=[".", ","]),
        Normalize(module_input_name="token_embeddings"),
    ]
    return MultiVectorEncoder(modules=modules, prompts={"query": "[Q] ", "document": "[D] "})


def dense() -> SentenceTransformer:
    modules = [
        bert(), Pooling(12, ("cls", "mean")), random(Dense(24, 10, use_residual=True), 1), random(LayerNorm(10), 2), Dropout(0.3),
        random(Dense(10, 10, bias=False, activation_function=torch.nn.GELU(), use_residual=True), 3),
    ]  # fmt: skip
    return SentenceTransformer(modules=modules, similarity_fn_name="manhattan", truncate_dim=7)


def scores() -> CrossEncoder:
    modules = [bert(), Pooling(12, "max"), random(Dense(12, 5, activation_function=torch.nn.ReLU()), 1)]
    last = Dense(5, 1, activation_function=torch.nn.Identity(), module_output_name="scores")
    return CrossEncoder(modules=[*modules, random(last, 2)])


def judge() -> CrossEncoder:
    model = Transformer(base(transformers.Qwen3ForCausalLM(QWEN), TEMPLATE), transformer_task="text-generation")
    score = LogitScore(WORDS.index("yes"), WORDS.index("no"))
    return CrossEncoder(modules=[model, score], prompts={"task": "what is a fish"}, default_prompt_name="task")


def pooled(include: bool) -> SentenceTransformer:
    prompts = {"query": "query : the ", "document": "document : ", "other": "a "}
    modules = [bert(), Pooling(12, MODES, include_prompt=include), Normalize()]
    return SentenceTransformer(modules=modules, prompts=prompts, default_prompt_name="other")


def table() -> SentenceTransformer:
    embedding = StaticEmbedding(tokenizer(), embedding_dim=9)
    return SentenceTransformer(modules=[random(embedding, 1), Normalize()])


CASES: dict[str, Callable[[], torch.nn.Module]] = {
    "pooled": lambda: pooled(True),
    "pooled_without_prompt": lambda: pooled(False),
    "dense": dense,
    "words_max": lambda: words("max", "relu"),
    "words_sum": lambda: words("sum", "log1p_relu"),
    "tokens": lambda: tokens(strategy="fixed", attend=False, length=11),
    "tokens_attended": lambda: tokens(strategy="min", attend=True, length=8, token="[UNK]"),
    "scores": scores,
    "classes": lambda: CrossEncoder(base(transformers.BertForSequenceClassification(transformers.BertConfig(**SIZES, num_labels=1)))),
    "judge": judge,
    "table": table,
}  # fmt: skip


def to_old_layout(folder: Path) -> None:
    """The layout before version 2: a folder for the model, flags for modes, and types of sentence_transformers.models."""
    inner = folder / "0_Transformer"
    inner.mkdir()
    for file in list(folder.iterdir()):
        if file.is_file() and file.name != "modules.json":
            file.rename(inner / file.name)
    (inner / "sentence_bert_config.json").write_text('{"max_seq_length": 8, "do_lower_case": true}\n')
    (inner / "config_sentence_transformers.json").unlink()
    modules = json.loads((folder / "modules.json").read_text())
    for module in modules:
        module["type"] = "sentence_transformers.models." + module["type"].rsplit(".", 1)[1]
    modules[0]["path"] = inner.name
    (folder / "modules.json").write_text(json.dumps(modules, indent=2) + "\n")
    flags = ["cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens"]
    pooling = {"word_embedding_dimension": 12} | {f"pooling_mode_{flag}": flag != "mean_sqrt_len_tokens" for flag in flags}
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling, indent=2) + "\n")
    (folder / "2_Normalize/config.json").unlink()


def to_model2vec(folder: Path) -> None:
    """The tensors of model2vec: rows that ids share, and a factor of each id."""
    rows = load_file(folder / "model.safetensors")["embedding.weight"][:20].contiguous()
    mapping = torch.tensor([(7 * i) % 20 for i in range(len(WORDS))])
    weights = torch.linspace(0.2, 1.7, len(WORDS), dtype=torch.float64)
    save_file({"embeddings": rows, "mapping": mapping, "weights": weights}, folder / "model.safetensors")


def values_of(folder: Path, kind: type) -> dict:
    model = kind(str(folder)).double()
    golden: dict = {"texts": TEXTS}
    if kind is CrossEncoder:
        golden["scores"] = [float(x) for x in model.predict([(TEXTS[0], text) for text in TEXTS])]
        return golden
    lists = lambda values: [np.asarray(v.to_dense() if hasattr(v, "to_dense") else v).tolist() for v in values]
    golden["any"] = lists(model.encode(TEXTS))
    golden["query"] = lists(model.encode_query(TEXTS))
    golden["document"] = lists(model.encode_document(TEXTS))
    golden["similarity"] = np.asarray(model.similarity(model.encode(TEXTS), model.encode(TEXTS)).to_dense()).tolist()
    return golden


def write(name: str, make: Callable[[], torch.nn.Module], change: Callable[[Path], None] | None = None) -> None:
    folder = GOLDENS / "sentences" / name
    shutil.rmtree(folder, ignore_errors=True)
    model = make()
    model.save_pretrained(str(folder))
    (folder / "README.md").unlink(missing_ok=True)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if change:
        change(folder)
    golden = values_of(folder, type(model))
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    print(json.dumps({"case": name, "bytes": sum(f.stat().st_size for f in folder.rglob("*"))}))


def main() -> None:
    for name, make in CASES.items():
        write(name, make)
    modes = lambda: SentenceTransformer(modules=[bert(), Pooling(12, ("cls", "max", "mean")), Normalize()])
    write("old_layout", modes, to_old_layout)
    write("table_with_factors", table, to_model2vec)
    shutil.rmtree(WORK)
