// What `vitrine info` says about a config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace vitrine {

/// A line of `vitrine info`.
struct ConfigFact {
  using Value = std::variant<std::string, std::int64_t, float, bool>;

  std::string name;
  Value value;
};
using ConfigFacts = std::vector<ConfigFact>;

template <class Number>
ConfigFact::Value or_none(const std::optional<Number>& number) {
  return number ? ConfigFact::Value(*number) : ConfigFact::Value("none");
}

}  // namespace vitrine
