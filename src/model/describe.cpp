#include "model/describe.h"

#include <algorithm>
#include <cctype>
#include <span>

#include <fmt/format.h>

#include "base/fingerprint.h"

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

/// Collects the names of fields that are not as by default.
class Mechanisms {
 public:
  const std::vector<std::string>& names() const { return names_; }

  /// `prefix` begins the names: `norm_` in a norm. A field without a name is part of the config around it.
  template <HasFields C>
  void add(const C& config, const std::string& prefix) {
    for_each_field(config, [&](const Field& field, const auto& member) {
      using T = std::remove_cvref_t<decltype(member)>;
      const std::string name = (field.name.starts_with(prefix) ? "" : prefix) + std::string(field.name);
      if constexpr (kIsConfigs<T>) {
        for (const auto& layer : member) add_config(layer, "");
      } else if constexpr (kIsVariant<T> || HasFields<T>) {
        add_config(member, prefix_of<T>(field, prefix));
      } else if constexpr (requires { requires HasFields<typename T::value_type>; }) {
        if (!member) return;
        add_name(name);
        add_config(*member, prefix_of<typename T::value_type>(field, prefix));
      } else if constexpr (!std::is_same_v<T, std::vector<float>>) {
        add_value(field, name, member, text_of(usual<C, T>(field)));
      }
    });
    if constexpr (std::is_same_v<C, AttentionConfig>) {
      if (config.rope && config.rope->dim < config.head_dim) add_name("rope_fraction");
    }
  }

 private:
  /// The value of a field of `C` by default.
  template <class C, class T>
  static T usual(const Field& field) {
    T value{};
    const C config{};
    for_each_field(config, [&](const Field& other, const auto& member) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, T>) {
        if (other.name == field.name) value = member;
      }
    });
    return value;
  }

  /// All norms of a model have one formula, as a rule, and both stacks the same fields: they are named once.
  template <class T>
  static std::string prefix_of(const Field& field, const std::string& prefix) {
    if (std::is_same_v<T, NormConfig>) return "norm_";
    if (std::is_same_v<T, StackConfig>) return "";
    return field.name.empty() ? prefix : prefix + std::string(field.name) + "_";
  }

  template <class T>
  void add_config(const T& config, const std::string& prefix) {
    if constexpr (HasFields<T>) {
      add(config, prefix);
    } else {
      std::visit(
          [&](const auto& kind) {
            using Kind = std::remove_cvref_t<decltype(kind)>;
            if constexpr (!std::is_same_v<Kind, std::monostate>) {
              add_name(prefix.empty() ? text_of(kind) : prefix.substr(0, prefix.size() - 1) + " " + text_of(kind));
            }
            if constexpr (HasFields<Kind>) {
              if (prefix.empty()) add(kind, prefix);
            }
          },
          config);
    }
  }

  template <class T>
  void add_value(const Field& field, const std::string& name, const T& value, const std::string& otherwise) {
    // Sizes differ in every model; for them the list of fields has the default in words.
    const bool is_size = !field.otherwise.empty() && field.otherwise != otherwise;
    const bool is_number = std::is_floating_point_v<T> && otherwise != "0" && otherwise != "1";
    if (is_size || is_number || text_of(value) == otherwise) return;
    if constexpr (std::is_enum_v<T>) {
      constexpr std::string_view kKind = "_kind";
      add_name((name.ends_with(kKind) ? name.substr(0, name.size() - kKind.size()) : name) + " " + text_of(value));
    } else {
      add_name((text_of(value) == "no" || text_of(value) == "none" ? "no " : "") + name);
    }
  }

  void add_name(const std::string& name) {
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
  }

  std::vector<std::string> names_;
};

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
    if (stack.blocks[i].scalar) facts.push_back({"layer_scalar", true});
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

std::string all_fields_of(const ModelConfig& config) {
  std::string text;
  for (const auto& [path, value] : leaves_of(config)) text += path + '=' + value + '\n';
  return text;
}

std::uint64_t digest_of(const ModelConfig& config) {
  Fingerprint digest;
  for (const auto& [path, value] : leaves_of(config)) {
    for (const std::string& text : {path, value}) digest.add(std::as_bytes(std::span(text)));
  }
  return digest.value();
}

std::vector<std::string> mechanisms_of(const ModelConfig& config) {
  Mechanisms mechanisms;
  mechanisms.add(config, "");
  std::vector<std::string> names = mechanisms.names();
  const auto turns = [](const BlockConfig& block) {
    const auto* const attention = find<AttentionConfig>(block);
    return attention != nullptr && attention->rope.has_value();
  };
  const auto n = std::count_if(config.blocks.begin(), config.blocks.end(), turns);
  if (n > 0 && n < std::ssize(config.blocks)) names.emplace_back("layers without rope");
  return names;
}

}  // namespace vitrine
