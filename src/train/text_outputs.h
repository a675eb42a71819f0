// What a pass makes of texts, in float64: outputs of a head, or vectors; and the way back.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/text_steps.h"
#include "pass/pass.h"

namespace vitrine {

/// What the loss of texts compares: vectors of `width` elements that steps make of their rows, weights of words, or, if
/// both are absent, the outputs of the head.
struct TextResult {
  bool has_vectors = false;
  std::int64_t width = 0;
  std::optional<SpladeStep> words{};
};

/// Receives `[n, width]`: the outputs of the texts, or of the rows, of a pass, or the vectors of its texts. With a
/// tape, returns their gradients of the same size.
using DifferentiateTexts = std::function<std::vector<double>(std::span<const double> outputs)>;

/// Makes the pass call `differentiate`, once. `steps` make the vector of a text of its rows; null: the outputs of the
/// head. The pass and the steps must stay where they are until it has run.
void deliver_texts(Pass& pass, const TextSteps* steps, DifferentiateTexts differentiate);

/// Makes the pass call `receive` with `[n, vocab_size]`, the weights of words of its texts, without a tape.
void deliver_words(Pass& pass, const SpladeStep& step, std::int64_t vocab_size,
                   std::function<void(std::span<const double> weights)> receive);
/// Makes a pass with a tape begin its backward with the gradients of the weights that deliver_words() found. Both stay
/// where they are until the pass has run.
void differentiate_words(Pass& pass, const SpladeStep& step, std::span<const double> weights,
                         std::span<const double> gradients);

}  // namespace vitrine
