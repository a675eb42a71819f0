// The fields of one JSON object, each asked for with its type; a wrong type is an error that names it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace vitrine {

/// Every function throws BadCheckpoint where the field has another type, or is missing and there is no default. A null
/// field counts as missing.
class JsonFields {
 public:
  /// `what` names the object in errors. Throws BadCheckpoint where `json` is no object. Keeps references to all three.
  JsonFields(const Json& json, std::string_view what, std::string_view where);

  const Json* find(std::string_view key) const;  ///< Null pointer where missing.
  const Json& at(std::string_view key) const;

  std::string string(std::string_view key) const;
  std::string string(std::string_view key, std::string_view fallback) const;
  bool boolean(std::string_view key) const;
  bool boolean(std::string_view key, bool fallback) const;
  std::int64_t integer(std::string_view key) const;  ///< Not negative.
  std::int64_t integer(std::string_view key, std::int64_t fallback) const;
  const Json& array(std::string_view key) const;

  /// Throws Unsupported for any key that is not in the list: an option that nobody reads would change ids silently.
  void allow(std::initializer_list<std::string_view> keys) const;

  std::string_view where() const { return where_; }

 private:
  [[noreturn]] void wrong(std::string_view key, std::string_view expected) const;
  const Json& json_;
  std::string_view what_;
  std::string_view where_;
};

}  // namespace vitrine
