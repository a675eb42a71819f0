"""Makes tests/goldens/vector_precisions.json: vectors, ranges, and what sentence-transformers quantizes them to.

    python tools/goldens vector_precisions

Needs sentence-transformers 6.2.
"""

import json

import numpy as np
from goldens.files import GOLDENS
from sentence_transformers.util import quantize_embeddings

PRECISIONS = ("int8", "uint8", "binary", "ubinary")


def main() -> None:
    vectors = np.random.default_rng(5).standard_normal((7, 11)).astype(np.float32)
    vectors[:, 3] = 0.25  # an element without a range
    vectors[2, 5] = 0.0
    ranges = np.stack([vectors.min(0) * 0.6, vectors.max(0) * 0.8]).astype(np.float32)
    own = {name: quantize_embeddings(vectors, name).tolist() for name in PRECISIONS}
    given = {name: quantize_embeddings(vectors, name, ranges=ranges).tolist() for name in PRECISIONS[:2]}
    golden = {"vectors": vectors.tolist(), "ranges": ranges.tolist(), "own": own, "given": given}
    (GOLDENS / "vector_precisions.json").write_text(json.dumps(golden) + "\n")
