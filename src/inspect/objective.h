// The gradient of a logit, of a difference of logits or of a log-probability, at every site.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "inspect/text_pass.h"

namespace vitrine {

/// The number that a run is measured by: the logit of a token at a position, after scale and softcap, or its
/// log-probability in nats; minus that of another token.
struct Objective {
  std::int32_t token = 0;
  std::optional<std::int32_t> against{};
  std::int64_t position = 0;
  bool is_logprob = false;

  /// Its value for the logits `[vocab_size]` of the position.
  double value(std::span<const float> logits) const;
};

/// Runs the text forward and backward, so that the taps of the pass receive the gradients of the objective. Products
/// with quantized weights are those of Compute::f32. Throws Unsupported for another type of keys and values than f32,
/// BadInput for tokens outside the vocabulary.
void backward_from_objective(const Model& model, Pass& pass, const Tokens& tokens, const Objective& objective);

/// Runs the pass forward and backward from given gradients of its logits, `[T, vocab_size]`, so that the taps of the
/// pass receive the gradients of a loss that is computed elsewhere. Throws as backward_from_objective() does.
void backward_from_logits(const Model& model, Pass& pass, const Tokens& tokens, std::span<const float> gradients);

/// The same from the sum of terms. Throws BadInput for terms outside the pass or the vocabulary, too.
void backward_from_terms(const Model& model, Pass& pass, const Tokens& tokens, std::vector<LogitTerm> terms);

/// The same from the gradients of the outputs of a task head, `[n, labels]`. Throws Unsupported for a model without
/// one.
void backward_from_outputs(const Model& model, Pass& pass, const Tokens& tokens, std::span<const float> gradients,
                           Gradients& params);

/// A label that does not count, as in transformers.
constexpr std::int32_t kNoLabel = -100;

/// Runs the text forward and backward, with these targets of its rows (kNoLabel for none). Returns their mean
/// cross-entropy in nats, plus that of the next sentence if there is a label for it; adds the gradients to `params`.
double backward_from_targets(const Model& model, Pass& pass, const Tokens& tokens, std::vector<std::int32_t> targets,
                             Gradients& params, std::optional<std::int32_t> next_sentence = std::nullopt);

}  // namespace vitrine
