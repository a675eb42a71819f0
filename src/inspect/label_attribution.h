// Why a text has a label: the output of a task head as a sum of what each part of the model has written.
//
// The stream at the rows that the head reads is a sum of parts (inspect/stream_parts.h), and the head
//
//   output = out · norm(activation(dense · x + b)) + b
//
// is linear in them once two things are held fixed: the divisors of all norms, and for each element y of the dense
// layer the ratio r = (activation(y) − activation(0)) / y, so that activation(Σ parts) = activation(0) + Σ r · part.
// The parts add up to the output. A reranker without a head reads the logits of one or two words after the text; their
// parts are those of inspect/attribution.h.
//
// Integrated gradients: (x − x') · ∫₀¹ ∂output/∂x at x' + a (x − x') da for the embedding x of each token, where x' is
// that of a baseline token, by Gauss–Legendre quadrature. They add up to the difference of the outputs of x and x'.
//
// Source: Elhage et al. 2021, "A mathematical framework for Transformer circuits".
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "inspect/attribution.h"

namespace vitrine {

/// The number that is explained: the output of a label, minus that of another.
struct LabelChoice {
  std::size_t label = 0;
  std::optional<std::size_t> against{};
  std::int64_t position = -1;  ///< Of a head that reads every token: which one, from the end if negative.
  /// Labels are ids of the vocabulary, their outputs the logits of the token after the text.
  bool is_next_word = false;
};

/// The head whose outputs are explained. Throws Unsupported for a model without one.
const TaskHead& head_of_labels(const Model& model);
/// The row of its outputs for a text. Throws BadInput for a position outside the text.
std::int64_t output_row(const TaskHead& head, const Tokens& tokens, const LabelChoice& choice);
/// Throws Unsupported for a model without logits of a next word, BadInput for ids outside the vocabulary.
void check_next_word(const Model& model, const LabelChoice& choice);

struct LabelAttribution {
  std::vector<AttributionTerm> terms;
  double sum = 0;     ///< Of the terms.
  double output = 0;  ///< head.hook_out, or hook_logits of the next word.
};

/// The direct split. Throws as attribute() does, Unsupported for a model without the head that `choice` names and for
/// an adapter of the head.
LabelAttribution attribute_label(const GenerateContext& context, const Tokens& tokens, const LabelChoice& choice,
                                 bool by_head);

}  // namespace vitrine
