// Geometry of the token embedding: which vectors agree, and what lies near.
//
//   cosine(a, b) = a · b / (|a| |b|)
//
// The vectors are the rows of the embedding as they are stored, without the scale of the forward, which changes no
// cosine. Source of analogies by sums: Mikolov et al. 2013, "Linguistic regularities in continuous space word
// representations".
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
  /// Borrows all. Reads the whole table once, for the lengths of its rows.
  EmbeddingSpace(const Model& model, ThreadPool& pool, const Kernels& kernels);

  /// `[d_model]`: Σ factor · row / |row| of the terms, each row of length 1 first. Throws BadInput for ids beyond the
  /// vocabulary.
  std::vector<float> sum(std::span<const EmbeddingTerm> terms) const;
  /// 0 where a vector is zero.
  double cosine(std::int32_t a, std::int32_t b) const;
  /// The `n` tokens whose vectors have the largest cosine with `vector`, but for `without`; lower ids first among
  /// equals.
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
