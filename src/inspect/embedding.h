// The geometry of the token embedding: cosines, nearest neighbours and analogies.
//
//   cosine(a, b) = a · b / (|a| |b|)
//
// The vectors are the stored rows of the embedding. The embedding scale of the forward does not affect a cosine. Source
// of analogies as sums: Mikolov et al. 2013, "Linguistic regularities in continuous space word representations".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "model/model.h"
#include "parallel/thread_pool.h"

namespace vitrine {

/// A multiple of a token's vector.
struct EmbeddingTerm {
  std::int32_t id = 0;
  float factor = 1;
};

struct Neighbour {
  std::int32_t id = 0;
  double cosine = 0;
};

class EmbeddingSpace {
 public:
  /// Keeps references to its arguments. Reads the whole table once, to compute the lengths of its rows.
  EmbeddingSpace(const Model& model, ThreadPool& pool, const Kernels& kernels);

  /// `[d_model]`: Σ factor · row / |row| over the terms. Throws BadInput for ids outside the vocabulary.
  std::vector<float> sum(std::span<const EmbeddingTerm> terms) const;
  /// The cosine of the vectors of `a` and `b`; 0 if one is zero. Throws BadInput for ids outside the vocabulary.
  double cosine(std::int32_t a, std::int32_t b) const;
  /// The `n` tokens, except those in `without`, whose vectors have the largest cosine with `vector` `[d_model]`,
  /// largest first. Of equal cosines the lower id comes first.
  std::vector<Neighbour> nearest(std::span<const float> vector, std::int64_t n,
                                 std::span<const std::int32_t> without) const;

 private:
  std::vector<float> row(std::int32_t id) const;

  const Model& model_;
  ThreadPool& pool_;
  const Kernels& kernels_;
  std::vector<float> lengths_;  // of all rows
};

}  // namespace vitrine
