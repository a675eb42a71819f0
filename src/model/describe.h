// Configs in words, from the lists of their fields (base/fields.h).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "model/config.h"

namespace vitrine {

/// A line of `vitrine info`.
struct ConfigFact {
  using Value = std::variant<std::string, std::int64_t, float, bool>;

  std::string name;
  Value value;
};
using ConfigFacts = std::vector<ConfigFact>;

/// The lines of `vitrine info` about a model, without its layers, and about layer `i` of a stack.
ConfigFacts describe_model(const ModelConfig& config);
ConfigFacts describe_layer(const StackConfig& stack, std::size_t i);

/// The first field that differs, with both values: `blocks.0.attention.window: 8 and none`; empty if the configs are
/// equal. A config without this field is `absent`.
std::string first_difference(const ModelConfig& a, const ModelConfig& b);

/// All fields and their values, one a line: configs that differ have different texts.
std::string all_fields_of(const ModelConfig& config);

/// A number of the same.
std::uint64_t digest_of(const ModelConfig& config);

/// What a model is made of, without sizes: the kinds of its sublayers, and the fields that are not as by default, each
/// once, with the words of enums: `window`, `qk_norm_over all_heads`.
std::vector<std::string> mechanisms_of(const ModelConfig& config);

}  // namespace vitrine
