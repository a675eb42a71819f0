// Why a text has a label: the output of a task head as a sum of what each part of the model has written, and as a sum
// over the words of the text.
//
// Direct: the stream at the rows that the head reads is a sum of parts (inspect/stream_parts.h), and the head
//
//   output = out · norm(activation(dense · x + b)) + b
//
// is linear in them once two things are held fixed: the divisors of all norms, and for each element y of the dense
// layer the ratio r = (activation(y) − activation(0)) / y, so that activation(Σ parts) = activation(0) + Σ r · part.
// The parts add up to the output.
//
// Integrated gradients: (x − x') · ∫₀¹ ∂output/∂x at x' + a (x − x') da for the embedding x of each token, where x' is
// that of a baseline token, by Gauss–Legendre quadrature. They add up to the difference of the outputs of x and x'.
//
// Sources: Elhage et al. 2021, "A mathematical framework for Transformer circuits"; Sundararajan, Taly & Yan 2017,
// "Axiomatic attribution for deep networks".
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "inspect/attribution.h"

namespace vitrine {

/// The output of a label, minus that of another.
struct LabelChoice {
  std::size_t label = 0;
  std::optional<std::size_t> against{};
  std::int64_t position = -1;  ///< Of a head that reads every token: which one, from the end if negative.
};

struct LabelAttribution {
  std::vector<AttributionTerm> terms;
  double sum = 0;     ///< Of the terms.
  double output = 0;  ///< head.hook_out.
};

/// The direct split. Throws as attribute() does, Unsupported for a model without a task head and for an adapter of the
/// head.
LabelAttribution attribute_label(const GenerateContext& context, const Tokens& tokens, const LabelChoice& choice,
                                 bool by_head);

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
/// Unsupported for a model without a task head.
TokenAttribution integrate_gradients(const GenerateContext& context, const Tokens& tokens, const LabelChoice& choice,
                                     const PathOptions& options);

}  // namespace vitrine
