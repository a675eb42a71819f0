#!/usr/bin/env python3
"""Trains small random models on texts with vitrine and with the reference, and compares them.

Each case runs some steps of `vitrine train` and the same steps in float64 with the loss of sentence-transformers or
transformers, torch's AdamW and gradient clipping. It prints the largest relative difference of the losses, and of the
outputs of the trained models, which the reference loads from the folder that vitrine has written.

    tools/check_text_training.py build/vitrine [CASE …]

Needs torch, transformers 5.24 and sentence-transformers 6.2.
"""

import json
import logging
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.cross_encoder import losses as rank_losses
from sentence_transformers.sentence_transformer import losses as vector_losses
from sentence_transformers.sentence_transformer import modules
from sentence_transformers.sparse_encoder import SparseEncoder
from sentence_transformers.sparse_encoder import losses as sparse_losses
from sentence_transformers.sparse_encoder import modules as sparse_modules
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

logging.disable(logging.WARNING)
transformers.utils.logging.disable_progress_bar()

STEPS, BATCH, LR, DECAY = 20, 8, 1e-3, 0.01
WORDS = (
    "the a cat dog fish bird eats sees runs sleeps in on under house tree river sea big small red blue what where who "
    "how does do is are not never very quickly slowly man woman child apple bread water milk"
).split()
TAGS = ["O", "B-A", "I-A", "B-B", "I-B"]


def make_tokenizer():
    letters = [chr(c) for c in range(97, 123)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    for word in WORDS + letters + ["##" + letter for letter in letters]:
        if word not in vocabulary:
            vocabulary.append(word)
    t = Tokenizer(models.WordPiece({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {f"{name.lower()}_token": f"[{name}]" for name in ("UNK", "PAD", "CLS", "SEP", "MASK")}
    names["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, model_max_length=64, **names), len(vocabulary)


def make_model(folder, kind, labels=0, problem=None, names=None):
    """A random BERT with a head of that class, in float32."""
    torch.manual_seed(7)
    tokenizer, size = make_tokenizer()
    config = transformers.BertConfig(
        vocab_size=size, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=60,
        max_position_embeddings=64, initializer_range=0.15, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    if names:
        config.id2label = dict(enumerate(names))
        config.label2id = {name: i for i, name in enumerate(names)}
    elif labels:
        config.num_labels = labels
    config.problem_type = problem
    kind(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer


def text(rng, least=1, most=14):
    return " ".join(rng.choice(WORDS + ["trees", "xylem"]) for _ in range(rng.randint(least, most)))


def train(program, folder, model, lines, settings):
    """The losses of each step, and the folder of the trained model."""
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = folder / "config.toml"
    config.write_text(
        f"""[model]\nfrom = "{model}"\n{settings.get("model", "")}
[data]\ntexts = "{data}"\norder = "file"
[train]\nsteps = {STEPS}\nbatch = {BATCH}\n{settings["train"]}
[loss]\n{settings.get("loss", "")}
[optimizer]\nbeta2 = 0.999\nweight_decay = {DECAY}
[schedule]\nname = "constant"\nlr = {LR}
[out]\nfolder = "{folder / "run"}"\n"""
    )
    done = subprocess.run([program, "train", str(config), "--threads", "2"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    metrics = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in metrics], folder / "run" / "last"


def train_reference(module, lines, loss_of):
    decays = [p for p in module.parameters() if p.ndim >= 2]
    others = [p for p in module.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decays, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}], lr=LR
    )
    found = []
    for step in range(STEPS):
        batch = [lines[i % len(lines)] for i in range(step * BATCH, (step + 1) * BATCH)]
        optimizer.zero_grad()
        loss = loss_of(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        found.append(loss.item())
    return found


def worst(ours, theirs):
    return max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(ours, theirs, strict=True))


# --- classes and tags ------------------------------------------------------------------------------------------------


def head_case(program, folder, kind, task, lines, encode, **model):
    tokenizer = make_model(folder / "model", kind, **model)
    losses, trained = train(program, folder, folder / "model", lines, {"train": f'task = "{task}"'})
    reference = kind.from_pretrained(folder / "model").double().train()
    theirs = train_reference(reference, lines, lambda batch: reference(**encode(tokenizer, batch)).loss)
    inputs = encode(tokenizer, lines[:16])
    own = kind.from_pretrained(trained).double().eval()
    with torch.no_grad():
        outputs = (own(**inputs).logits - reference.eval()(**inputs).logits).abs().max().item()
    return worst(losses, theirs), outputs


def classify_case(labels, problem, label_of, pair=False):
    def run(program, folder):
        rng = random.Random(labels)
        lines = []
        for _ in range(44):
            line = {"text": text(rng), "label": label_of(rng)}
            if pair:
                line["text_pair"] = text(rng)
            lines.append(line)

        def encode(tokenizer, batch):
            texts = [[line["text"] for line in batch]]
            if pair:
                texts.append([line["text_pair"] for line in batch])
            encoded = tokenizer(*texts, padding=True, return_tensors="pt")
            values = torch.tensor([line["label"] for line in batch])
            return {**encoded, "labels": values.double() if values.is_floating_point() else values}

        kind = transformers.BertForSequenceClassification
        return head_case(program, folder, kind, "classify", lines, encode, labels=labels, problem=problem)

    return run


def tag(program, folder):
    rng = random.Random(3)
    lines = []
    for _ in range(44):
        words = text(rng).split()
        lines.append({"tokens": words, "tags": [rng.randrange(len(TAGS)) for _ in words]})

    def encode(tokenizer, batch):
        words = [line["tokens"] for line in batch]
        encoded = tokenizer(words, is_split_into_words=True, padding=True, return_tensors="pt")
        labels = []
        for i, line in enumerate(batch):  # as run_ner: the first piece of a word has its tag
            of_words = encoded.word_ids(i)
            previous = [None] + of_words[:-1]
            labels.append([-100 if w is None or w == p else line["tags"][w] for w, p in zip(of_words, previous)])
        return {**encoded, "labels": torch.tensor(labels)}

    return head_case(program, folder, transformers.BertForTokenClassification, "tag", lines, encode, names=TAGS)


# --- rerankers -------------------------------------------------------------------------------------------------------


def rerank_case(name, make_line, columns, labels_of):
    def run(program, folder):
        make_model(folder / "model", transformers.BertForSequenceClassification, labels=1)
        rng = random.Random(5)
        lines = [make_line(rng) for _ in range(44)]
        settings = {"train": 'task = "rerank"', "loss": f'name = "{name}"'}
        losses, trained = train(program, folder, folder / "model", lines, settings)
        reference = CrossEncoder(str(folder / "model"), device="cpu").double()
        loss = getattr(rank_losses, name)(reference)
        reference.train()
        theirs = train_reference(reference, lines, lambda batch: loss(columns(batch), labels_of(batch)))
        own = CrossEncoder(str(trained), device="cpu").double()
        pairs = [(text(rng), text(rng)) for _ in range(16)]
        identity = torch.nn.Identity()
        difference = own.predict(pairs, activation_fn=identity) - reference.predict(pairs, activation_fn=identity)
        return worst(losses, theirs), float(abs(difference).max())

    return run


def list_line(rng):
    n = rng.randint(2, 5)
    return {"query": text(rng), "documents": [text(rng) for _ in range(n)], "labels": [rng.choice([0.0, 1.0, 2.0]) for _ in range(n)]}


def triple_line(rng):
    return {"query": text(rng), "positive": text(rng), "negative_1": text(rng), "negative_2": text(rng),
            "label": [rng.uniform(-1, 3), rng.uniform(-1, 3)]}  # fmt: skip


def column(batch, *names):
    return [[line[name] for line in batch] for name in names]


def double(batch, name):
    return torch.tensor([line[name] for line in batch], dtype=torch.float64)


RERANK = {
    "BinaryCrossEntropyLoss": rerank_case(
        "BinaryCrossEntropyLoss",
        lambda rng: {"query": text(rng), "document": text(rng), "label": rng.choice([0.0, 1.0, 0.25])},
        lambda batch: column(batch, "query", "document"),
        lambda batch: double(batch, "label"),
    ),
    "MarginMSELoss": rerank_case(
        "MarginMSELoss", triple_line, lambda batch: column(batch, "query", "positive", "negative_1", "negative_2"),
        lambda batch: double(batch, "label"),
    ),  # fmt: skip
}
for list_loss in ("RankNetLoss", "ListNetLoss"):
    RERANK[list_loss] = rerank_case(
        list_loss, list_line, lambda batch: column(batch, "query", "documents"),
        lambda batch: [torch.tensor(line["labels"], dtype=torch.float64) for line in batch],
    )  # fmt: skip


# --- vectors ---------------------------------------------------------------------------------------------------------


def save_vector_model(folder, pooling, is_mapped=False):
    """A folder of sentence-transformers. "splade": its vectors are weights of words. Several poolings are joined."""
    if pooling == "splade":
        make_model(folder / "base", transformers.BertForMaskedLM)
        part = modules.Transformer(str(folder / "base"), transformer_task="fill-mask")
        SparseEncoder(modules=[part, sparse_modules.SpladePooling("max")], device="cpu").save(str(folder / "model"))
        return SparseEncoder
    make_model(folder / "base", transformers.BertModel)
    part = modules.Transformer(str(folder / "base"))
    steps = [part, modules.Pooling(part.get_embedding_dimension(), pooling_mode=pooling)]
    if is_mapped:
        width = steps[1].get_embedding_dimension()
        gelu = torch.nn.GELU()
        steps += [modules.Dense(width, 20), modules.Dense(20, 20, activation_function=gelu, use_residual=True)]
        steps += [modules.LayerNorm(20), modules.Dense(20, 13, bias=False), modules.Normalize()]
    SentenceTransformer(modules=steps, device="cpu").save(str(folder / "model"))
    return SentenceTransformer


def embed_case(settings, make_loss, columns, score=None, pooling="mean", micro_batches=1, is_mapped=False, scores=1):
    def run(program, folder):
        kind = save_vector_model(folder, pooling, is_mapped)
        rng = random.Random(9)
        lines = []
        for _ in range(44):
            line = {name: text(rng) for name in columns}
            if score:
                values = [rng.choice([0.0, 0.2, 0.5, 1.0, 1.0, rng.random()]) for _ in range(scores)]
                line[score] = values if scores > 1 else values[0]
            lines.append(line)
        train_keys = f'task = "embed"\nmicro_batches = {micro_batches}'
        losses, trained = train(program, folder, folder / "model", lines, {"train": train_keys, "loss": settings})
        reference = kind(str(folder / "model"), device="cpu").double()
        loss = make_loss(reference)
        reference.train()

        def loss_of(batch):
            features = [reference.preprocess(texts) for texts in column(batch, *columns)]
            value = loss(features, double(batch, score) if score else None)
            return sum(value.values()) if isinstance(value, dict) else value

        theirs = train_reference(reference, lines, loss_of)
        own = kind(str(trained), device="cpu").double()
        texts = [text(rng) for _ in range(16)]
        exact = {"convert_to_sparse_tensor": False} if pooling == "splade" else {}
        difference = own.encode(texts, **exact) - reference.encode(texts, **exact)
        return worst(losses, theirs), float(abs(difference).max())

    return run


MNR = vector_losses.MultipleNegativesRankingLoss
PAIR, TRIPLE = ("anchor", "positive"), ("anchor", "positive", "negative")
BOTH = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
SENTENCES = ("sentence1", "sentence2")
WEIGHTS = {"document_regularizer_weight": 0.03, "query_regularizer_weight": 0.05}
WEIGHT_KEYS = "".join(f"{key} = {value}\n" for key, value in WEIGHTS.items())


def splade(model, loss):
    return sparse_losses.SpladeLoss(model, loss(model), **WEIGHTS)


EMBED = {
    "MultipleNegativesRankingLoss": embed_case("", MNR, PAIR),
    "MultipleNegativesRankingLoss negatives": embed_case(
        'name = "MultipleNegativesRankingLoss"\nscale = 15', lambda m: MNR(m, scale=15), TRIPLE, pooling="cls"
    ),
    "MultipleNegativesRankingLoss symmetric": embed_case(
        "symmetric = true", lambda m: MNR(m, **BOTH), TRIPLE, pooling="max"
    ),
    "MultipleNegativesRankingLoss chunks": embed_case("", MNR, TRIPLE, micro_batches=4),
    "CoSENTLoss": embed_case('name = "CoSENTLoss"', vector_losses.CoSENTLoss, SENTENCES, "score"),
    "CoSENTLoss chunks": embed_case(
        'name = "CoSENTLoss"', vector_losses.CoSENTLoss, SENTENCES, "score", micro_batches=2
    ),
    "CosineSimilarityLoss": embed_case(
        'name = "CosineSimilarityLoss"', vector_losses.CosineSimilarityLoss, SENTENCES, "score", pooling="lasttoken"
    ),
    "MatryoshkaLoss": embed_case(
        "matryoshka_dims = [8, 36, 16]\nmatryoshka_weights = [0.5, 1, 2]",
        lambda m: vector_losses.MatryoshkaLoss(m, MNR(m), [8, 36, 16], [0.5, 1, 2]),
        TRIPLE,
    ),
    "MatryoshkaLoss CoSENTLoss": embed_case(
        'name = "CoSENTLoss"\nmatryoshka_dims = [36, 12]',
        lambda m: vector_losses.MatryoshkaLoss(m, vector_losses.CoSENTLoss(m), [36, 12]),
        SENTENCES, "score",
    ),  # fmt: skip
    "poolings": embed_case("", MNR, TRIPLE, pooling=["cls", "weightedmean", "max", "mean_sqrt_len_tokens"]),
    "maps": embed_case("", MNR, TRIPLE, pooling=["mean", "lasttoken"], is_mapped=True),
    "maps chunks": embed_case("symmetric = true", lambda m: MNR(m, **BOTH), TRIPLE, is_mapped=True, micro_batches=4),
    "maps CoSENTLoss": embed_case(
        'name = "CoSENTLoss"', vector_losses.CoSENTLoss, SENTENCES, "score", pooling="max", is_mapped=True
    ),
    "maps MatryoshkaLoss": embed_case(
        "matryoshka_dims = [13, 6]", lambda m: vector_losses.MatryoshkaLoss(m, MNR(m), [13, 6]), PAIR, is_mapped=True
    ),
    "MarginMSELoss of vectors": embed_case(
        'name = "MarginMSELoss"', vector_losses.MarginMSELoss, TRIPLE, "score", micro_batches=2
    ),
    "maps MarginMSELoss": embed_case(
        'name = "MarginMSELoss"', vector_losses.MarginMSELoss, ("anchor", "positive", "negative_1", "negative_2"),
        "score", is_mapped=True, scores=3,
    ),  # fmt: skip
    "SpladeLoss": embed_case(
        WEIGHT_KEYS, lambda m: splade(m, sparse_losses.SparseMultipleNegativesRankingLoss), TRIPLE, pooling="splade"
    ),
    "SpladeLoss chunks": embed_case(
        WEIGHT_KEYS, lambda m: splade(m, sparse_losses.SparseMultipleNegativesRankingLoss), TRIPLE, pooling="splade",
        micro_batches=4,
    ),  # fmt: skip
    "SpladeLoss CoSENTLoss": embed_case(
        'name = "CoSENTLoss"\n' + WEIGHT_KEYS, lambda m: splade(m, sparse_losses.SparseCoSENTLoss), SENTENCES, "score",
        pooling="splade",
    ),  # fmt: skip
}
HEADS = {
    "cross-entropy": classify_case(3, None, lambda rng: rng.randrange(3)),
    "cross-entropy pairs": classify_case(3, "single_label_classification", lambda rng: rng.randrange(3), pair=True),
    "BCE": classify_case(4, "multi_label_classification", lambda rng: [float(rng.random() < 0.4) for _ in range(4)]),
    "MSE": classify_case(1, "regression", lambda rng: rng.uniform(-2, 2)),
    "MSE of three": classify_case(3, "regression", lambda rng: [rng.uniform(-2, 2) for _ in range(3)]),
    "tags": tag,
}
CASES = {**HEADS, **RERANK, **EMBED}


def main():
    program, *names = sys.argv[1:]
    failed = False
    for name in names or CASES:
        with tempfile.TemporaryDirectory() as folder:
            losses, outputs = CASES[name](program, Path(folder))
        failed |= losses > 1e-5
        print(f"{name:40} losses {losses:.1e}   outputs {outputs:.1e}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
