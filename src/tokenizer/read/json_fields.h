// Typed access to the fields of a JSON object, with errors that name the field.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace vitrine {

/// Every function throws BadCheckpoint if the field has another type, or if it is missing and there is no default. A
/// null field counts as missing.
class JsonFields {
 public:
  /// `what` names the object in errors. Throws BadCheckpoint if `json` is not an object. Keeps references to all three.
  JsonFields(const Json& json, std::string_view what, std::string_view where);

  const Json* find(std::string_view key) const;
  bool is_null(
      std::string_view key) const;  ///< Whether the key is there, with the value null.  ///< Returns null if missing.
  const Json& at(std::string_view key) const;

  std::string string(std::string_view key) const;
  std::string string(std::string_view key, std::string_view fallback) const;
  bool boolean(std::string_view key) const;
  bool boolean(std::string_view key, bool fallback) const;
  std::int64_t integer(std::string_view key) const;  ///< Not negative.
  std::int64_t integer(std::string_view key, std::int64_t fallback) const;
  const Json& array(std::string_view key) const;

  /// Throws Unsupported if there is another key, because ignoring an option would silently change ids.
  void allow(std::initializer_list<std::string_view> keys) const;

  std::string_view where() const { return where_; }

 private:
  [[noreturn]] void wrong(std::string_view key, std::string_view expected) const;
  const Json& json_;
  std::string_view what_;
  std::string_view where_;
};

}  // namespace vitrine
