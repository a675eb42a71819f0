// The order of documents for a query.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/hugging_face/sentence_transformers.h"
#include "generate/classify.h"

namespace vitrine {

/// How alike two vectors of the same width are, in float64: the cosine (0 if one is 0), the product, or the negative of
/// the Euclidean or the Manhattan distance. Source: sentence-transformers, util/similarity.py.
double similarity_of(Similarity similarity, std::span<const float> a, std::span<const float> b);

/// The function whose results order documents: the folder's, else sigmoid. Throws Unsupported for a head of several
/// labels, which give no order.
ScoreFunction rank_function(const TaskHead& head, const SentenceConfig& folder);

/// The indices of `scores`, largest first; equal ones in their order.
std::vector<std::size_t> descending(std::span<const float> scores);

}  // namespace vitrine
