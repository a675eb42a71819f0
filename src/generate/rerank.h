// The order of documents for a query.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/hugging_face/sentence_transformers.h"
#include "generate/classify.h"
#include "generate/read_values.h"

namespace vitrine {

/// How alike two vectors of the same width are, in float64: the cosine (0 if one is 0), the product, or the negative of
/// the Euclidean or the Manhattan distance. Source: sentence-transformers, util/similarity.py.
double similarity_of(Similarity similarity, std::span<const float> a, std::span<const float> b);

/// Whether documents are read together with the query, for scores: by the folder's steps, or by the head of a model
/// whose folder has none.
bool reads_pairs(const ModelConfig& model, const SentenceConfig& folder);
/// How a model orders documents: by scores of pairs, or by the similarity of vectors.
enum class RankMethod : std::uint8_t { pairs, vectors };
/// Throws Unsupported for scores that give no order, and for a model that continues texts and has no modules.json.
RankMethod rank_method(const ModelConfig& model, const SentenceConfig& folder);
/// Whether the model is for vectors: the folder's steps make them, or it has no steps and no head for something else.
bool makes_vectors(const ModelConfig& model, const SentenceConfig& folder);
/// The function whose first result orders documents: the folder's, else sigmoid, or softmax of the labels yes and no,
/// as llama.cpp's files of Qwen3-Reranker have them. Throws Unsupported unless reads_pairs(), and for other labels if
/// there are several, which give no order.
ScoreFunction rank_function(const ModelConfig& model, const SentenceConfig& folder);
/// Passes the outputs of pairs to `receive`. Throws as read_values() and read_outputs() do.
void read_scores(const GenerateContext& context, const SentenceConfig& folder, const TextIds& pairs,
                 std::int64_t max_rows, const ReceiveOutputs& receive);

/// The indices of `scores`, largest first; equal ones in their order.
std::vector<std::size_t> descending(std::span<const float> scores);

}  // namespace vitrine
