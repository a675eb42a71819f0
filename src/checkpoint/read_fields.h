// Reads the fields of a config (base/fields.h) from the keys of own models, which are called after them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/fields.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

/// The index of the word at `key` in `words`; `otherwise` if the key is absent.
inline std::size_t choice(ConfigReader& c, std::string_view key, std::span<const std::string_view> words,
                          std::size_t otherwise = 0) {
  const std::string text = c.text_or(key, words[otherwise]);
  const auto found = std::find(words.begin(), words.end(), text);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  throw Unsupported(c.where(), "{}: expected {}, got \"{}\"", key, fmt::join(words, ", "), text);
}
/// `norm_eps` for the field `eps` of a norm; a field `kind` is named like what it is the kind of.
inline std::string key_of(std::string_view of, const Field& field) {
  if (of.empty()) return std::string(field.name);
  return std::string(of) + (field.name == "kind" ? "" : "_" + std::string(field.name));
}

/// Whether read_field reads a field of this type.
template <class T>
constexpr bool kIsReadable = std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                             std::is_same_v<T, std::optional<std::int64_t>> || std::is_same_v<T, std::optional<float>>;

/// Reads a field, which keeps its value if its key is absent.
template <class T>
void read_field(ConfigReader& c, const std::string& key, const Field& field, T& member) {
  if constexpr (std::is_same_v<T, bool>) {
    member = c.flag_or(key, member);
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    const bool may_be_zero = member == 0 && field.otherwise.empty();
    if (field.otherwise == Field::kRequired || (c.has(key) && !(may_be_zero && c.number_or(key, 0) == 0))) {
      member = c.size(key);
    }
  } else if constexpr (std::is_same_v<T, float>) {
    member = static_cast<float>(c.number_or(key, static_cast<double>(member)));
  } else if constexpr (std::is_same_v<T, Activation>) {
    member = read_activation(c, key, text_of(member));
  } else if constexpr (std::is_enum_v<T>) {
    member = static_cast<T>(choice(c, key, words(member), static_cast<std::size_t>(member)));
  } else if constexpr (std::is_same_v<T, std::optional<std::int64_t>>) {
    if (c.has(key)) member = c.size(key);
  } else if constexpr (std::is_same_v<T, std::optional<float>>) {
    member = read_softcap(c, key, std::nullopt);
  }
}

/// Reads the fields of a config, but not those of configs within it.
template <HasFields C>
void read_fields(ConfigReader& c, C& config, std::string_view of = "") {
  for_each_field(config, [&](const Field& field, auto& member) {
    if constexpr (kIsReadable<std::remove_cvref_t<decltype(member)>>) {
      if (field.is_key) read_field(c, key_of(of, field), field, member);
    }
  });
}

}  // namespace vitrine
