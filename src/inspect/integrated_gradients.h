// Integrated gradients: the output of a label as a sum over the tokens of the text.
//
//   (x − x') · ∫₀¹ ∂output/∂x at x' + a (x − x') da
//
// for the embedding x of each token, where x' is that of a baseline token, by Gauss–Legendre quadrature. They add up to
// the difference of the outputs of x and x'.
//
// Source: Sundararajan, Taly & Yan 2017, "Axiomatic attribution for deep networks".
#pragma once

#include <cstdint>
#include <vector>

#include "inspect/label_attribution.h"

namespace vitrine {

struct PathOptions {
  std::int32_t baseline = 0;  ///< The token whose embedding replaces those of the text.
  std::int64_t steps = 64;    ///< Points of the quadrature.
  std::vector<bool> keeps{};  ///< Tokens that keep their embedding; empty: none.
};

struct TokenAttribution {
  std::vector<double> tokens;  ///< 0 for a token that keeps its embedding.
  double output = 0, baseline = 0;
};

/// Integrated gradients of each token. Products are those of Compute::f32. Throws BadInput as text_pass() does,
/// Unsupported for a model without the head that `choice` names.
TokenAttribution integrate_gradients(const GenerateContext& context, const Tokens& tokens, const LabelChoice& choice,
                                     const PathOptions& options);

}  // namespace vitrine
