#!/usr/bin/env python3
"""Compares what `vitrine eval --task` prints of small random models with the usual packages.

    tools/check_text_scores.py build/vitrine

The models are those of check_text_training.py. Needs torch, transformers 5.24, sentence-transformers 6.2, scikit-learn,
scipy and seqeval.
"""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import seqeval.metrics as seq
import torch
import transformers
from check_text_training import TAGS, make_model, save_vector_model, text
from scipy.stats import pearsonr, spearmanr
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder.evaluation import CrossEncoderRerankingEvaluator
from sentence_transformers.sentence_transformer.evaluation import (
    EmbeddingSimilarityEvaluator,
    InformationRetrievalEvaluator,
)
from sentence_transformers.util import pairwise_cos_sim
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score


def scores(program, model, data, task, *more):
    command = [program, "eval", str(model), str(data), "--task", task, "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def search_data(folder, rng):
    queries = {f"q{i}": text(rng, 3) for i in range(20)}
    documents = {f"d{i}": text(rng, 3) for i in range(120)}
    relevant = {q: set(rng.sample(sorted(documents), rng.randint(1, 6))) for q in queries}
    (folder / "qrels").mkdir()
    write_lines(folder / "queries.jsonl", [{"_id": i, "text": t} for i, t in queries.items()])
    write_lines(folder / "corpus.jsonl", [{"_id": i, "title": "", "text": t} for i, t in documents.items()])
    rows = [f"{q}\t{d}\t1\n" for q, own in relevant.items() for d in sorted(own)]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    return queries, documents, relevant


def retrieval(program, folder):
    rng = random.Random(4)
    for dimensions in (None, 12):
        own = folder / f"search-{dimensions}"
        own.mkdir()
        kind = save_vector_model(own, "mean")
        evaluator = InformationRetrievalEvaluator(
            *search_data(own, rng), precision_recall_at_k=[1, 3, 5, 10, 100], truncate_dim=dimensions,
            show_progress_bar=False,
        )  # fmt: skip
        expected = evaluator(kind(str(own / "model"), device="cpu").double())
        more = ("--dimensions", str(dimensions)) if dimensions else ()
        found = scores(program, own / "model", own, "retrieval", *more)
        for name, value in found.items():
            if "@" in name:
                yield f"retrieval {dimensions or ''} {name}", value, expected[f"cosine_{name}"]


def similarity(program, folder):
    rng = random.Random(6)
    kind = save_vector_model(folder, "mean")
    model = kind(str(folder / "model"), device="cpu")  # float32: the ends of the ranges of integers depend on it
    lines = [{"sentence1": text(rng), "sentence2": text(rng), "score": rng.random()} for _ in range(60)]
    data = write_lines(folder / "pairs.jsonl", lines)
    a, b = ([line[name] for line in lines] for name in ("sentence1", "sentence2"))
    truths = [line["score"] for line in lines]
    for precision in ("float32", "int8", "uint8", "binary", "ubinary"):
        found = scores(program, folder / "model", data, "sts", "--precision", precision)
        evaluator = EmbeddingSimilarityEvaluator(
            a, b, truths, main_similarity="cosine", precision=precision if precision != "float32" else None
        )
        # The evaluator compares in float32, and vitrine makes vectors in float32: what is not a rank is rounded.
        expected = evaluator(model)
        if precision == "float32":
            exact = kind(str(folder / "model"), device="cpu").double()
            cosines = pairwise_cos_sim(*(exact.encode(own, convert_to_tensor=True).double() for own in (a, b)))
            expected["pearson_cosine"] = pearsonr(truths, cosines.numpy())[0]
            expected["spearman_cosine"] = spearmanr(truths, cosines.numpy())[0]
        for name in ("pearson", "spearman"):
            yield f"sts {precision} {name}", found[name], expected[f"{name}_cosine"]


def classes(program, folder):
    rng = random.Random(8)
    tokenizer = make_model(folder / "model", transformers.BertForSequenceClassification, labels=4)
    lines = [{"text": text(rng), "label": i % 4} for i in range(80)]
    found = scores(program, folder / "model", write_lines(folder / "texts.jsonl", lines), "classify")
    model = transformers.BertForSequenceClassification.from_pretrained(folder / "model").double().eval()
    with torch.no_grad():
        encoded = tokenizer([line["text"] for line in lines], padding=True, return_tensors="pt")
        p = model(**encoded).logits.softmax(-1).numpy()
    truths = [line["label"] for line in lines]
    yield "classify accuracy", found["accuracy"], accuracy_score(truths, p.argmax(1))
    yield "classify f1_macro", found["f1_macro"], f1_score(truths, p.argmax(1), average="macro", zero_division=0)
    yield "classify f1_micro", found["f1_micro"], f1_score(truths, p.argmax(1), average="micro")
    yield "classify auc", found["auc"], roc_auc_score(truths, p, multi_class="ovr")


def tags(program, folder):
    rng = random.Random(9)
    tokenizer = make_model(folder / "model", transformers.BertForTokenClassification, names=TAGS)
    lines = []
    for _ in range(40):
        words = text(rng).split()
        lines.append({"tokens": words, "tags": [rng.choice(TAGS) for _ in words]})
    found = scores(program, folder / "model", write_lines(folder / "tags.jsonl", lines), "tag")
    model = transformers.BertForTokenClassification.from_pretrained(folder / "model").double().eval()
    predicted = []
    for line in lines:
        encoded = tokenizer(line["tokens"], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            best = model(**encoded).logits[0].argmax(-1).tolist()
        of_words = encoded.word_ids(0)
        predicted.append([TAGS[best[of_words.index(i)]] for i in range(len(line["tokens"]))])
    truths = [line["tags"] for line in lines]
    yield "tag precision", found["precision"], seq.precision_score(truths, predicted)
    yield "tag recall", found["recall"], seq.recall_score(truths, predicted)
    yield "tag f1", found["f1"], seq.f1_score(truths, predicted)
    yield "tag accuracy", found["accuracy"], seq.accuracy_score(truths, predicted)


def rerank(program, folder):
    rng = random.Random(10)
    make_model(folder / "model", transformers.BertForSequenceClassification, labels=1)
    lines = []
    for _ in range(15):
        documents = [text(rng) for _ in range(rng.randint(3, 14))]
        lines.append({"query": text(rng), "positive": documents[:2], "negative": documents[2:]})
    found = scores(program, folder / "model", write_lines(folder / "shown.jsonl", lines), "rerank")
    expected = CrossEncoderRerankingEvaluator(lines, at_k=10)(CrossEncoder(str(folder / "model"), device="cpu").double())
    for name in ("map", "mrr@10", "ndcg@10"):
        yield f"rerank {name}", found[name], float(expected[name])


def main():
    program = sys.argv[1]
    worst = 0.0
    for check in (classes, tags, similarity, retrieval, rerank):
        with tempfile.TemporaryDirectory() as folder:
            for name, found, expected in check(program, Path(folder)):
                most = 1e-6 if name.endswith("pearson") else 1e-9
                worst = max(worst, abs(found - expected) / most)
                if not np.isclose(found, expected, rtol=0, atol=most):
                    print(f"{name}: {found} instead of {expected}")
    print(f"largest difference: {worst:.1e} of what is allowed")
    sys.exit(worst > 1)


if __name__ == "__main__":
    main()
