// The fields of a config, listed once, next to its struct. What reads, describes, compares or changes configs visits
// the lists, and names no field itself:
//
//   template <ConfigOf<QkNormConfig> C, class Visit>
//   void for_each_field(C& c, Visit&& visit) {
//     visit(Field{"norm", "of q and k"}, c.norm);
//     visit(Field{"over", "what it normalizes"}, c.over);
//   }
//
// A field that has no meaning, given those before it, is not visited.
// A member is a number, a flag, an enum with words(), a list of floats or of texts, an optional of these, or a config,
// a list, an optional or a variant of configs, whose alternatives have a kName.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <fmt/format.h>

namespace vitrine {

struct Field {
  static constexpr std::string_view kRequired = "required";

  std::string_view name;            ///< As a key of own models and in descriptions.
  std::string_view sentence;        ///< What it means, in Markdown.
  std::string_view otherwise = {};  ///< The default in words, if it is not the value of the member; or kRequired.
  bool is_key = true;               ///< Own models have it as a key that sets this field alone.
};

/// `C` is `Config`, which may be const.
template <class C, class Config>
concept ConfigOf = std::same_as<std::remove_const_t<C>, Config>;

template <class C>
concept HasFields = requires(C& c) {
  for_each_field(c, [](const Field&, auto&) {});
};

/// The base `Base` of a config, const if the config is.
template <class Base, class C>
auto& base_of(C& c) {
  return static_cast<std::conditional_t<std::is_const_v<C>, const Base, Base>&>(c);
}

template <class T>
constexpr bool kIsOptional = false;
template <class T>
constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
constexpr bool kIsVariant = false;
template <class... T>
constexpr bool kIsVariant<std::variant<T...>> = true;

/// A list of configs, or of variants of them.
template <class T>
constexpr bool kIsConfigs = false;
template <class T>
constexpr bool kIsConfigs<std::vector<T>> = !std::is_arithmetic_v<T> && !std::is_same_v<T, std::string>;

/// The value of a field in words: `none` for an absent one, the kind of a variant.
template <class T>
std::string text_of(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "yes" : "no";
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(words(value)[static_cast<std::size_t>(value)]);
  } else if constexpr (kIsOptional<T>) {
    return value ? text_of(*value) : "none";
  } else if constexpr (kIsVariant<T>) {
    return std::visit([](const auto& kind) { return text_of(kind); }, value);
  } else if constexpr (std::is_same_v<T, std::monostate>) {
    return "none";
  } else if constexpr (std::is_same_v<T, std::vector<float>> || std::is_same_v<T, std::vector<std::string>>) {
    return fmt::format("{}", fmt::join(value, ", "));
  } else if constexpr (requires { T::kName; }) {
    return std::string(T::kName);
  } else if constexpr (HasFields<T>) {
    return "present";
  } else {
    return fmt::format("{}", value);
  }
}

/// Calls leaf(path, member) for every field of a config and of those within it, in order, with paths like
/// `blocks.0.attention.rope.theta`. Optionals and variants of configs are leaves before their fields are.
template <class T, class Leaf>
void for_each_leaf(T& member, const std::string& path, Leaf&& leaf) {
  using Value = std::remove_const_t<T>;
  const std::string dot = path.empty() ? "" : ".";
  if constexpr (HasFields<Value>) {
    for_each_field(member, [&](const Field& field, auto& part) {
      for_each_leaf(part, field.name.empty() ? path : path + dot + std::string(field.name), leaf);
    });
  } else if constexpr (kIsVariant<Value>) {
    leaf(path, member);
    const auto leaves_of_kind = [&](auto& kind) {
      if constexpr (HasFields<std::remove_cvref_t<decltype(kind)>>)
        for_each_leaf(kind, path + dot + text_of(kind), leaf);
    };
    std::visit(leaves_of_kind, member);
  } else if constexpr (kIsConfigs<Value>) {
    for (std::size_t i = 0; i < member.size(); ++i) for_each_leaf(member[i], path + dot + std::to_string(i), leaf);
  } else {
    leaf(path, member);
    if constexpr (requires { requires HasFields<typename Value::value_type>; }) {
      if (member) for_each_leaf(*member, path, leaf);
    }
  }
}

}  // namespace vitrine
