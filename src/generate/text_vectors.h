// The vectors of whole texts as callers get them, and how alike they are.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/hugging_face/sentence_transformers.h"
#include "generate/encode.h"
#include "generate/read_values.h"

namespace vitrine {

/// `[n, d]`: a vector of a text (n = 1), or one of each token that counts, or scores.
struct TextVectors {
  std::int64_t n = 0, d = 0;
  std::vector<float> values{};

  std::span<const float> row(std::int64_t i) const {
    return std::span(values).subspan(static_cast<std::size_t>(i * d), static_cast<std::size_t>(d));
  }
};

/// What a caller wants otherwise than the folder says.
struct VectorOptions {
  std::optional<std::int64_t> dimensions{};  ///< Vectors are cut, and divided by their length again if they were.
  std::optional<PoolStep::Mode> pooling{};   ///< The only mode.
  std::optional<bool> normalize{};           ///< Whether vectors are divided by their length at the end.
  std::int64_t max_rows = EncodeOptions().max_rows;
};

/// Leaves the first `d` elements, and divides these by their length if `normalizes`.
void cut_vector(std::vector<float>& vector, std::int64_t d, bool normalizes);

/// Receives what text number `i` is read as.
using ReceiveVectors = std::function<void(std::size_t i, TextVectors vectors)>;

/// Reads all texts through the model and the folder's steps. Everything that makes vectors of texts by a folder calls
/// this: commands, the server, rerankers. Throws as read_values() does, BadInput for dimensions that the vectors do not
/// have, Unsupported for options that do not apply to what the folder makes.
void read_vectors(const GenerateContext& context, const SentenceConfig& folder, const TextIds& texts,
                  const VectorOptions& options, const ReceiveVectors& receive);

/// A weight of a word.
struct WordWeight {
  std::int32_t id;
  float weight;
};
/// The elements of a vector that are not 0, in ascending order of ids.
std::vector<WordWeight> sparse_of(std::span<const float> vector);

/// How alike two texts are, in float64. Vectors of tokens have the functions max_sim and mean_max_sim, and no others.
/// Throws InternalError for vectors of different widths.
double similarity_of(Similarity similarity, const TextVectors& a, const TextVectors& b);

}  // namespace vitrine
