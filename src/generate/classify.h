// What a head for classes, tags or scores makes of whole texts.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "generate/read_texts.h"

namespace vitrine {

/// That of the text-classification pipeline of transformers: none for a regression, sigmoid for several labels or a
/// single one, softmax otherwise.
ScoreFunction score_function(const TaskHead& head);
/// The scores of one row of outputs.
std::vector<float> scores_of(ScoreFunction function, std::span<const float> outputs);

/// Receives the outputs of text number `i`: `[labels]`, or `[n, labels]` of a head that reads each token.
using ReceiveOutputs = std::function<void(std::size_t i, const Tensor& outputs)>;

/// Passes the outputs of all texts to `receive`, in an order that depends on their lengths. Throws as read_texts()
/// does, Unsupported for a model without such a head, NotFinite.
void read_outputs(const GenerateContext& context, const TextIds& texts, std::int64_t max_rows,
                  const ReceiveOutputs& receive);

}  // namespace vitrine
