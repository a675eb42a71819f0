#include "model/describe.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace vitrine {
namespace {

template <class T>
std::string in_short(const T& value);

/// The fields of a config in one line, without those that say that something is absent: `rms, eps 1e-05`.
template <HasFields C>
std::string line_of(const C& config) {
  std::string line;
  for_each_field(config, [&](const Field& field, const auto& member) {
    using T = std::remove_cvref_t<decltype(member)>;
    std::string text;
    if constexpr (std::is_same_v<T, bool>) {
      if (member) text = field.name;
    } else if constexpr (std::is_enum_v<T>) {
      text = text_of(member);
    } else if constexpr (!std::is_same_v<T, std::vector<float>> && !kIsConfigs<T>) {
      const std::string value = in_short(member);
      if (value != "none" && value != "0") text = fmt::format("{} {}", field.name, value);
    }
    if (!text.empty()) line += (line.empty() ? "" : ", ") + text;
  });
  return line;
}

template <class T>
std::string in_short(const T& value) {
  if constexpr (kIsOptional<T>) {
    return value ? in_short(*value) : "none";
  } else if constexpr (kIsVariant<T>) {
    return std::visit(
        [](const auto& kind) {
          std::string text = text_of(kind);
          if constexpr (HasFields<std::remove_cvref_t<decltype(kind)>>) text += " (" + line_of(kind) + ")";
          return text;
        },
        value);
  } else if constexpr (HasFields<T>) {
    return line_of(value);
  } else {
    return text_of(value);
  }
}

template <class T>
ConfigFact::Value value_of(const T& value) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::int64_t> || std::is_same_v<T, float>) {
    return value;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return std::int64_t{value};
  } else if constexpr (kIsOptional<T>) {
    return value ? value_of(*value) : ConfigFact::Value("none");
  } else {
    return in_short(value);
  }
}

/// A line for each field. Fields without a name are those of the config in which they are; layers are left out. The
/// names of norms, and those that a sublayer before this one has as well, get the suffix.
template <HasFields C>
void add_fields(const C& config, const std::string& suffix, ConfigFacts& facts) {
  for_each_field(config, [&](const Field& field, const auto& member) {
    using T = std::remove_cvref_t<decltype(member)>;
    if constexpr (HasFields<T>) {
      if (field.name.empty()) return add_fields(member, suffix, facts);
    }
    if constexpr (kIsVariant<T>) {
      const auto add = [&](const auto& kind) {
        if constexpr (HasFields<std::remove_cvref_t<decltype(kind)>>) add_fields(kind, suffix, facts);
      };
      std::visit(add, member);
    } else if constexpr (!kIsConfigs<T>) {
      const bool is_norm = std::is_same_v<std::remove_const_t<C>, SublayerNorms>;
      const auto has_name = [&](const ConfigFact& fact) { return fact.name == field.name; };
      const bool is_taken = std::any_of(facts.begin(), facts.end(), has_name);
      facts.push_back({std::string(field.name) + (is_norm || is_taken ? suffix : ""), value_of(member)});
    }
  });
}

/// `cross_attention` for "cross-attention".
std::string key_of(std::string_view role) {
  std::string key(role);
  for (char& c : key) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

std::string describe_residual(const BlockConfig& block) {
  const bool is_parallel = block.is_parallel();
  std::string order;
  for (const Sublayer& sublayer : block.sublayers) {
    if (!order.empty()) order += is_parallel ? " and " : ", then ";
    order += names_of(sublayer).role;
  }
  return (is_parallel ? "parallel: " : "serial: ") + order;
}

using Leaves = std::vector<std::pair<std::string, std::string>>;  // path, value

Leaves leaves_of(const ModelConfig& config) {
  Leaves leaves;
  for_each_leaf(config, "",
                [&](const std::string& path, const auto& member) { leaves.emplace_back(path, text_of(member)); });
  return leaves;
}

}  // namespace

ConfigFacts describe_model(const ModelConfig& config) {
  ConfigFacts facts = {{"n_layers", static_cast<std::int64_t>(config.n_layers())}};
  add_fields(config, "", facts);
  if (!config.encoder) return facts;
  for (ConfigFact& fact : facts) {
    if (fact.name == "encoder")
      fact.value = fmt::format("n_layers {}, {}", config.encoder->n_layers(), line_of(*config.encoder));
  }
  return facts;
}

ConfigFacts describe_layer(const StackConfig& stack, std::size_t i) {
  ConfigFacts facts;
  if (const AttentionConfig* const attention = attention_of(stack, i)) {
    const std::int64_t n = attention->n_kv_heads;
    facts.push_back({"attention", n == attention->n_heads ? "MHA" : n == 1 ? "MQA" : "GQA"});
  } else if (heads_of(stack, i) != nullptr) {
    facts.push_back({"attention", "MLA"});
  }
  if (stack.layers.empty()) {
    facts.push_back({"residual", describe_residual(stack.blocks[i])});
    for (const Sublayer& sublayer : stack.blocks[i].sublayers) {
      add_fields(sublayer, "_" + key_of(names_of(sublayer).role), facts);
    }
  } else {
    std::visit(
        [&](const auto& kind) {
          facts.push_back({"layer", text_of(kind)});
          add_fields(kind, "", facts);
        },
        stack.layers[i]);
  }
  return facts;
}

std::string first_difference(const ModelConfig& a, const ModelConfig& b) {
  const Leaves x = leaves_of(a), y = leaves_of(b);
  const auto [in_a, in_b] = std::mismatch(x.begin(), x.end(), y.begin(), y.end());
  if (in_a == x.end() && in_b == y.end()) return "";
  if (in_a == x.end()) return fmt::format("{}: absent and {}", in_b->first, in_b->second);
  const bool is_in_both = in_b != y.end() && in_b->first == in_a->first;
  return fmt::format("{}: {} and {}", in_a->first, in_a->second, is_in_both ? in_b->second : "absent");
}

}  // namespace vitrine
