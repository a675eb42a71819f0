// The features that are active at each token of a text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/context.h"
#include "pass/dictionary.h"
#include "pass/sparse_rows.h"

namespace vitrine {

/// The activations of one dictionary, a row for each token.
struct ActiveFeatures {
  const Dictionary* dictionary = nullptr;
  SparseRows rows{};
};

/// The activations of the context's dictionaries over a text, in their order. The text is read in chunks where the
/// model can; the memory of a dictionary is that of its active features. Throws what a forward throws, and Unsupported
/// for a model with an encoder.
std::vector<ActiveFeatures> read_features(const GenerateContext& context, std::span<const std::int32_t> ids);

/// The k strongest of a row: by falling value, then by index.
std::vector<SparseValue> strongest(std::span<const SparseValue> row, std::size_t k);

}  // namespace vitrine
