// What a dictionary of features does to the value of its site.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace vitrine {

enum class DictionaryUse : std::uint8_t {
  automatic,  ///< Nothing, but as `error` where one of its values is written.
  read,       ///< Nothing.
  error,      ///< The value plus what writes change: reconstruction + the error before any write.
  replace,    ///< The reconstruction.
};

/// The value of --sae-use: read, error or replace; nothing for other names.
constexpr std::optional<DictionaryUse> dictionary_use_named(std::string_view name) {
  if (name == "read") return DictionaryUse::read;
  if (name == "error") return DictionaryUse::error;
  return name == "replace" ? std::optional(DictionaryUse::replace) : std::nullopt;
}

}  // namespace vitrine
