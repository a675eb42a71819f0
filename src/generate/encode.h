// Vectors of whole texts: the rows of a model's first stack, pooled, or what its pooler makes of them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "generate/context.h"
#include "generate/read_texts.h"
#include "model/text_steps.h"

namespace vitrine {

struct EncodeOptions {
  std::optional<PoolStep::Mode> mode = PoolStep::Mode::mean;  ///< Absent: the model's pooler.
  bool normalize = true;                                      ///< Divides a vector by its length, unless it is 0.
  std::int64_t max_rows = kReadingRows;                       ///< Of a pass, unless one text has more.
};

/// Receives the vector of text number `i`.
using ReceiveVector = std::function<void(std::size_t i, std::span<const float> vector)>;

/// Passes the vectors `[d_model]` of all texts to `receive`, in an order that depends on their lengths: texts of
/// similar length share a pass. A vector does not depend on the other texts. Throws BadInput for a text that is empty
/// or exceeds the context, Unsupported for a model without a pooler, NotFinite.
void encode(const GenerateContext& context, std::span<const std::vector<std::int32_t>> texts,
            const EncodeOptions& options, const ReceiveVector& receive);

}  // namespace vitrine
