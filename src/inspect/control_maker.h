// Control vectors from pairs of texts: directions in which the residual stream of one text differs from that of the
// other.
//
//   D [n, d]   the differences at blocks.N.hook_resid_post of n pairs, of the last token or of the means over tokens
//   mean       Σ D[i] / n
//   pca        the first right singular vector of D, uncentered, with the sign of Σ D · v > 0
//
// Directions have length 1. Sources: Rimsky et al. 2024 (contrastive activation addition), for the mean; Zou et al.
// 2023 (representation engineering), for the singular vector.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/context.h"
#include "pass/modifiers.h"

namespace vitrine {

enum class ControlMethod : std::uint8_t { mean, pca };
enum class ControlPool : std::uint8_t { last, mean };

/// Collects the differences of pairs, for all layers from 1 on.
class ControlMaker {
 public:
  /// Throws Unsupported as require_one_stream(), BadInput for a model of one layer.
  ControlMaker(const GenerateContext& context, ControlPool pool);

  /// Adds a pair. Throws as text_pass(), NotFinite, Interrupted.
  void add(std::span<const std::int32_t> positive, std::span<const std::int32_t> negative);
  std::int64_t n_pairs() const { return n_pairs_; }

  /// The directions. Throws BadInput if there is no pair, or if the differences of a layer are all zero or have a mean
  /// of zero, so that they have no direction.
  ControlVector make(ControlMethod method) const;

 private:
  using Pooled = std::vector<std::vector<double>>;  // by layer, of a text

  Pooled pooled(std::span<const std::int32_t> ids) const;

  const GenerateContext& context_;
  ControlPool pool_;
  std::vector<std::vector<float>> differences_;  // by layer − 1: D, row by row
  std::int64_t n_pairs_ = 0;
};

/// The first right singular vector of D `[n, d]`, of length 1, signed as above; zeros if D is zero. Lanczos' method for
/// DᵀD with full reorthogonalization, in float64.
std::vector<double> first_singular_vector(std::span<const float> d_rows, std::int64_t d);

}  // namespace vitrine
