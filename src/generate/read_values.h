// What the steps of a folder of sentence-transformers make of whole texts: vectors, sparse vectors, vectors of tokens,
// scores.
#pragma once

#include <functional>
#include <span>

#include "generate/read_texts.h"
#include "model/text_steps.h"

namespace vitrine {

/// Receives the values of text number `i`: `[1, d]`, or `[n, d]` of n tokens. Valid only during the call.
using ReceiveValues = std::function<void(std::size_t i, const Tensor& values)>;

/// Runs the model and then the steps over all texts, and passes what they make to `receive`, in an order that depends
/// on the lengths of the texts. A text's values do not depend on the others. Throws as read_texts() does, Unsupported
/// for a model that lacks what the steps read, BadCheckpoint for steps that do not fit it, NotFinite.
void read_values(const GenerateContext& context, const TextSteps& steps, const TextIds& texts, std::int64_t max_rows,
                 const ReceiveValues& receive);

}  // namespace vitrine
