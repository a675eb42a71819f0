"""Makes tests/metrics/text_scores.json: scores of classifiers, taggers, searches and answers, by the usual packages.

    python tools/goldens text_scores

Needs scikit-learn, scipy, seqeval 1.2.2 and sentence-transformers 6.2. Answers are scored as SQuAD's evaluate-v1.1.py
does, which is short.
"""

import random
import re
import string
from collections import Counter

import numpy as np
import seqeval.metrics as seq
from goldens.files import TESTS, write_cases
from scipy.stats import pearsonr, spearmanr
from sentence_transformers.cross_encoder.evaluation import CrossEncoderRerankingEvaluator
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score


def classes(rng, labels, n, rounded):
    scores = np.round(rng.dirichlet(np.ones(labels), n), 2 if rounded else 9)
    scores /= scores.sum(1, keepdims=True)
    truths = rng.integers(0, labels, n)
    predicted = scores.argmax(1)
    auc = roc_auc_score(truths, scores[:, 1]) if labels == 2 else roc_auc_score(truths, scores, multi_class="ovr")
    expected = {
        "accuracy": accuracy_score(truths, predicted),
        "f1_macro": f1_score(truths, predicted, average="macro", zero_division=0),
        "f1_micro": f1_score(truths, predicted, average="micro"),
        "auc": auc,
    }
    return {"kind": "classes", "several": False, "scores": scores.tolist(), "truths": [[int(t)] for t in truths], "expected": expected}


def several_labels(rng, labels, n):
    scores, truths = rng.random((n, labels)), (rng.random((n, labels)) < 0.4).astype(int)
    predicted = (scores > 0.5).astype(int)
    expected = {
        "accuracy": accuracy_score(truths, predicted),
        "f1_macro": f1_score(truths, predicted, average="macro", zero_division=0),
        "f1_micro": f1_score(truths, predicted, average="micro"),
        "auc": roc_auc_score(truths, scores, average="macro"),
    }
    return {"kind": "classes", "several": True, "scores": scores.tolist(), "truths": truths.tolist(), "expected": expected}


def numbers(rng, n):
    a, b = np.round(rng.random(n), 1), rng.random(n)
    expected = {"mse": float(((a - b) ** 2).mean()), "pearson": pearsonr(a, b)[0], "spearman": spearmanr(a, b)[0]}
    return {"kind": "numbers", "predicted": a.tolist(), "truths": b.tolist(), "expected": expected}


def tags(rng, names, n):
    predicted = [[rng.choice(names) for _ in range(rng.randrange(1, 9))] for _ in range(n)]
    truths = [[tag if rng.random() < 0.7 else rng.choice(names) for tag in own] for own in predicted]
    expected = {
        "precision": seq.precision_score(truths, predicted),
        "recall": seq.recall_score(truths, predicted),
        "f1": seq.f1_score(truths, predicted),
        "accuracy": seq.accuracy_score(truths, predicted),
    }
    return {"kind": "tags", "predicted": predicted, "truths": truths, "expected": expected}


def searches(rng, n, documents):
    relevant = {f"q{i}": {f"d{d}" for d in rng.sample(range(documents), rng.randint(1, 14))} for i in range(n)}
    evaluator = InformationRetrievalEvaluator(
        {q: q for q in relevant}, {f"d{i}": "" for i in range(documents)}, relevant,
        precision_recall_at_k=[1, 3, 5, 10, 100], show_progress_bar=False,
    )  # fmt: skip
    ranked = [rng.sample(range(documents), min(documents, 100)) for _ in relevant]
    found = [[{"score": -rank, "corpus_id": f"d{d}"} for rank, d in enumerate(own)] for own in ranked]
    scores = evaluator.compute_metrics(found)
    expected = {f"{name[:-1]}{k}": float(value) for name, values in scores.items() for k, value in values.items()}
    expected.pop("precision@100")
    queries = [
        {"relevant": [f"d{d}" in relevant[q] for d in own], "n": len(relevant[q])} for q, own in zip(relevant, ranked)
    ]
    return {"kind": "searches", "queries": queries, "expected": expected}


def rerankings(rng, n):
    evaluator = CrossEncoderRerankingEvaluator([{"query": "", "positive": [""], "negative": [""]}])
    queries, found = [], []
    for _ in range(n):
        size = rng.randint(2, 16)
        labels = [rng.random() < 0.3 for _ in range(size)]
        # argsort()[::-1] puts the last of equal scores first: ties are among documents of one kind
        scores = [round(rng.random(), 1) + (0.03 if label else 0) for label in labels]
        queries.append({"scores": scores, "relevant": labels})
        found.append(evaluator.compute_metrics(np.array(labels, int), np.array(scores)) if any(labels) else (0, 0, 0))
    mrr, ndcg, ap = np.mean(found, 0)
    return {"kind": "rerankings", "queries": queries, "expected": {"map": ap, "mrr@10": mrr, "ndcg@10": ndcg}}


def normalized(answer):
    text = "".join(c for c in answer.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def answers():
    cases = [
        ("the Eiffel Tower", ["Eiffel Tower", "Paris"]), ("in 1889.", ["1889"]), ("", [""]), ("a", ["the"]),
        ("An apple, a day!", ["apple day"]), ("new york city", ["York", "New York"]), ("Zoë's café", ["zoë’s café", "Zoës CAFÉ"]),
        ("“the end”", ["“a end”"]), ("x y x", ["x x z"]), ("no", ["yes"]), ("ÉTÉ the-end", ["été theend"]), ("1,000 a.b", ["1000 ab"]),
    ]  # fmt: skip
    for answer, truths in cases:
        exact, best = 0.0, 0.0
        for truth in truths:
            a, b = normalized(answer), normalized(truth)
            exact = max(exact, float(a == b))
            a, b = a.split(), b.split()
            same = sum((Counter(a) & Counter(b)).values())
            f1 = 2 * same / len(a) * same / len(b) / (same / len(a) + same / len(b)) if same else float(not a and not b)
            best = max(best, f1)
        yield {"kind": "answer", "answer": answer, "truths": truths, "expected": {"exact_match": exact, "f1": best}}


def main():
    rng, numbers_of = random.Random(3), np.random.default_rng(4)
    names = ["O", "O", "B-A", "I-A", "B-B", "I-B", "E-A", "S-B", "I"]
    cases = [
        classes(numbers_of, 2, 40, False), classes(numbers_of, 2, 40, True), classes(numbers_of, 5, 60, True),
        several_labels(numbers_of, 4, 30), numbers(numbers_of, 25), tags(rng, names[:6], 20), tags(rng, names, 30),
        searches(rng, 12, 40), searches(rng, 5, 150), searches(rng, 3, 14), rerankings(rng, 20), *answers(),
    ]  # fmt: skip
    for case in cases:
        case["expected"] = {name: float(value) for name, value in case["expected"].items()}
    write_cases(TESTS / "metrics" / "text_scores.json", cases)
