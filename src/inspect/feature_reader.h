// The features that are active at each token of a text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "generate/context.h"
#include "pass/dictionary.h"
#include "pass/sparse_rows.h"

namespace vitrine {

/// The activations of one dictionary, a row for each token.
struct ActiveFeatures {
  const Dictionary* dictionary = nullptr;
  SparseRows rows{};
  std::vector<std::int64_t> n_active{};  ///< By token, also of those that were not kept.
};

/// Reads a text with taps that want the activations of the context's dictionaries. The text is read in chunks where the
/// model can, of fewer tokens the more features there are, so that the active features of a chunk need little memory.
/// Throws what a forward throws, and Unsupported for a model with an encoder.
void visit_features(const GenerateContext& context, std::span<const std::int32_t> ids, Taps& taps);

/// The activations of the context's dictionaries over a text, in their order. With `top`, only so many of each token
/// are kept, the strongest. Throws as visit_features().
std::vector<ActiveFeatures> read_features(const GenerateContext& context, std::span<const std::int32_t> ids,
                                          std::optional<std::size_t> top = {});

/// KEY of files and tables: the name of a dictionary, or its site.
std::string key_of(const Dictionary& dictionary);

/// The k strongest of a row: by falling value, then by index.
std::vector<SparseValue> strongest(std::span<const SparseValue> row, std::size_t k);

/// `[{"index", "value"}]`, in the order of the row.
Json features_json(std::span<const SparseValue> row);

}  // namespace vitrine
