// The geometry of the token embedding: cosines, nearest neighbors and analogies.
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

struct Neighbor {
  std::int32_t id = 0;
  double cosine = 0;
};

class EmbeddingSpace {
 public:
  /// Keeps references to its arguments. Reads the whole table once, to compute the lengths of its rows.
  EmbeddingSpace(const Model& model, ThreadPool& pool, const Kernels& kernels);

  /// The cosine of the vectors of `a` and `b`; 0 if one is zero. Throws BadInput for ids outside the vocabulary.
  double cosine(std::int32_t a, std::int32_t b) const;
  /// For each list of terms, the `n` tokens outside the list whose vectors have the largest cosine with the sum
  /// Σ factor · row / |row|, largest first. Of equal cosines the lower id comes first. Reads the table once. Throws
  /// BadInput for ids outside the vocabulary.
  std::vector<std::vector<Neighbor>> nearest(std::span<const std::vector<EmbeddingTerm>> sums, std::int64_t n) const;

 private:
  std::vector<float> row(std::int32_t id) const;
  std::vector<float> sum(std::span<const EmbeddingTerm> terms) const;

  const Model& model_;
  ThreadPool& pool_;
  const Kernels& kernels_;
  std::vector<float> lengths_;  // of all rows
};

}  // namespace vitrine
