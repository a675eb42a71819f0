// The micro-batches of a batch, whose gradients are accumulated (gradient accumulation).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "model/stack.h"
#include "pass/pass.h"

namespace vitrine {

/// Some whole samples of a batch, whose ids it refers to.
struct BatchPart {
  std::vector<Segment> segments, sources;
  std::span<const std::int32_t> inputs, targets, source_ids, types;
  std::vector<float> weights;
  std::span<const Batch::Example> examples;
  std::size_t first_piece = 0;

  Tokens tokens() const { return {inputs, types, source_ids}; }
};

/// Part number `i` of `n`: the pieces in equal parts of the rows, of the pairs, or of the examples.
BatchPart part_of(const Batch& batch, std::int64_t i, std::int64_t n);

}  // namespace vitrine
