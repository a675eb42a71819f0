"""Makes tests/train/text_losses.json: losses of texts and their gradients, by sentence-transformers and torch.

    python tools/goldens text_losses

Needs torch, transformers 5.24 and sentence-transformers 6.2.
"""

import random

import torch
from goldens.files import TESTS, write_cases
from sentence_transformers.cross_encoder import losses as rank_losses
from sentence_transformers.sentence_transformer import losses as vector_losses
from sentence_transformers.sparse_encoder import losses as sparse_losses
from torch import nn
from transformers.loss.loss_utils import ForSequenceClassificationLoss, ForTokenClassification

torch.set_default_dtype(torch.float64)


class Vectors(nn.Module):
    """Returns given vectors for the columns of a batch, in place of a model's."""

    def __init__(self, outputs):
        super().__init__()
        self.outputs, self.width = outputs, outputs.shape[1]

    def get_embedding_dimension(self):
        return self.width

    def forward(self, features):
        return {"sentence_embedding": self.outputs[features["rows"]]}


class Scores(rank_losses.margin_mse.CrossEncoder):
    """Returns given scores for the pairs of a query and a document, in place of a model's."""

    def __init__(self, outputs):
        nn.Module.__init__(self)
        self.outputs = outputs

    num_labels = 1
    device = torch.device("cpu")

    def preprocess(self, pairs, prompt=None, task=None):
        return {"rows": torch.tensor([document for _, document in pairs])}

    def forward(self, inputs):
        return {"scores": self.outputs[inputs["rows"]]}


class Config:
    """What transformers' losses read of a config."""

    def __init__(self, labels, problem):
        self.num_labels, self.problem_type = labels, problem


def case(name, loss, outputs, examples, compute, **settings):
    """`examples`: the number of pieces and the labels of each."""
    outputs = outputs.clone().requires_grad_()
    # These two round to float32 themselves.
    torch.set_default_dtype(torch.float32 if loss in ("RankNet", "ListNet") else torch.float64)
    value = compute(outputs)
    value = sum(value.values()) if isinstance(value, dict) else value
    value.backward()
    torch.set_default_dtype(torch.float64)
    return {
        "name": name, "loss": loss, **settings, "width": outputs.shape[1],
        "examples": [{"pieces": pieces, "labels": labels} for pieces, labels in examples],
        "outputs": outputs.detach().flatten().tolist(),
        "value": value.item(), "gradients": outputs.grad.flatten().tolist(),
    }  # fmt: skip


def head_cases(rng, draw):
    for labels, problem, loss, label_of in (
        (4, "single_label_classification", "CrossEntropy", lambda: [rng.randrange(4)]),
        (4, "multi_label_classification", "BCEWithLogits", lambda: [float(rng.random() < 0.4) for _ in range(4)]),
        (1, "regression", "MSE", lambda: [rng.uniform(-2, 2)]),
        (3, "regression", "MSE", lambda: [rng.uniform(-2, 2) for _ in range(3)]),
    ):
        examples = [(1, label_of()) for _ in range(5)]
        values = torch.tensor([own if len(own) > 1 else own[0] for _, own in examples])
        yield case(
            f"{loss} {labels}", loss, draw(5, labels) * 3, examples,
            lambda x, v=values, p=problem, n=labels: ForSequenceClassificationLoss(v, x, Config(n, p)), task="classify",
        )  # fmt: skip
    lengths = [3, 1, 6]
    tags = [[rng.choice([-100, 0, 1, 2, 3, 4]) for _ in range(n)] for n in lengths]
    flat = torch.tensor([tag for own in tags for tag in own])
    yield case(
        "tags", "CrossEntropy", draw(sum(lengths), 5), [(1, own) for own in tags],
        lambda x: ForTokenClassification(x, flat, Config(5, None)), task="tag",
    )  # fmt: skip


def rank_cases(rng, draw):
    def columns(counts):
        rows = iter(range(sum(counts)))
        return [list(range(len(counts))), [[next(rows) for _ in range(n)] for n in counts]]

    labels = [rng.random() for _ in range(6)]
    yield case(
        "BinaryCrossEntropy", "BinaryCrossEntropy", draw(6, 1) * 4, [(1, [label]) for label in labels],
        lambda x: rank_losses.BinaryCrossEntropyLoss(Scores(x))([list(range(6)), list(range(6))], torch.tensor(labels)),
        task="rerank",
    )  # fmt: skip
    counts = [3, 1, 5, 2]
    lists = [[rng.choice([0.0, 1.0, 2.0]) for _ in range(n)] for n in counts]
    for loss in ("RankNet", "ListNet"):
        yield case(
            loss, loss, draw(sum(counts), 1) * 3, list(zip(counts, lists)),
            lambda x, loss=loss: getattr(rank_losses, loss + "Loss")(Scores(x))(columns(counts), [torch.tensor(own) for own in lists]),
            task="rerank",
        )  # fmt: skip
    margins = [[rng.uniform(-1, 3) for _ in range(2)] for _ in range(4)]
    triples = [[3 * i + k for i in range(4)] for k in range(3)]
    yield case(
        "MarginMSE", "MarginMSE", draw(12, 1) * 2, [(3, own) for own in margins],
        lambda x: rank_losses.MarginMSELoss(Scores(x))([list(range(4)), *triples], torch.tensor(margins)), task="rerank",
    )  # fmt: skip


def vector_cases(rng, draw):
    def features(n, columns):
        return [{"rows": torch.arange(n) * columns + k} for k in range(columns)]

    mnr, both = vector_losses.MultipleNegativesRankingLoss, {
        "directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction",
    }  # fmt: skip
    n, width = 5, 6

    def ranking(name, columns, make, **settings):
        return case(
            name, "MultipleNegativesRanking", draw(n * columns, width), [(columns, [])] * n,
            lambda x: make(Vectors(x))(features(n, columns), None), task="embed", **settings,
        )  # fmt: skip

    yield ranking("pairs", 2, mnr)
    yield ranking("negatives", 4, lambda m: mnr(m, scale=7.5), scale=7.5)
    yield ranking("symmetric", 3, lambda m: mnr(m, **both), symmetric=True)
    dims = {"matryoshka_dims": [6, 2, 3], "matryoshka_weights": [1.0, 0.25, 2.0]}
    yield ranking("Matryoshka", 3, lambda m: vector_losses.MatryoshkaLoss(m, mnr(m), *dims.values()), **dims)
    scores = [0.0, 0.5, 0.5, 1.0, 0.2]

    def scored(name, loss, make, **settings):
        return case(
            name, loss, draw(n * 2, width), [(2, [score]) for score in scores],
            lambda x: make(Vectors(x))(features(n, 2), torch.tensor(scores)), task="embed", **settings,
        )  # fmt: skip

    yield scored("CoSENT", "CoSENT", vector_losses.CoSENTLoss)
    yield scored("CosineSimilarity", "CosineSimilarity", vector_losses.CosineSimilarityLoss)
    yield scored(
        "Matryoshka CoSENT", "CoSENT",
        lambda m: vector_losses.MatryoshkaLoss(m, vector_losses.CoSENTLoss(m, scale=3), *dims.values()), scale=3, **dims,
    )  # fmt: skip
    weights = {"document_regularizer_weight": 0.3, "query_regularizer_weight": 0.7}
    yield ranking(
        "SPLADE", 3, lambda m: sparse_losses.SpladeLoss(m, sparse_losses.SparseMultipleNegativesRankingLoss(m), **weights),
        scale=1, **weights,
    )  # fmt: skip
    yield scored(
        "SPLADE CoSENT", "CoSENT",
        lambda m: sparse_losses.SpladeLoss(m, sparse_losses.SparseCoSENTLoss(m), **weights), **weights,
    )  # fmt: skip


def main():
    rng = random.Random(1)
    generator = torch.Generator().manual_seed(2)
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    cases = [*head_cases(rng, draw), *rank_cases(rng, draw), *vector_cases(rng, draw)]
    write_cases(TESTS / "train" / "text_losses.json", cases)
