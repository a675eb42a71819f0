// Reads the fields of a request's JSON object: their types, their ranges, and that every field is known.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "serve/request_error.h"

namespace vitrine {

/// Parses the body of a request. Throws RequestError for what parse_json() rejects, and for a value that is no object.
Json parse_body(std::string_view body);

/// A field that is null counts as absent. Errors are RequestErrors that name the field.
class RequestFields {
 public:
  /// `path` is the name of the object in errors, such as "stream_options"; "": the request itself.
  explicit RequestFields(const Json& object, std::string path = "");

  /// The value of a field; null if it is absent.
  const Json* find(std::string_view name);
  bool has(std::string_view name) { return find(name) != nullptr; }

  std::optional<bool> flag(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  std::optional<double> number(std::string_view name, double lowest, double highest);
  /// A whole number, as JSON integer.
  template <std::integral T>
  std::optional<T> whole(std::string_view name, T lowest, T highest) {
    const Json* const value = find(name);
    if (value == nullptr) return std::nullopt;
    return static_cast<T>(checked_whole(*value, name_of(name), lowest, highest));
  }
  /// Refuses a field that has a value other than null, false, an empty text, list or object.
  void refuse(std::string_view name, std::string_view why);
  /// Accepts fields that have no effect.
  void ignore(std::initializer_list<std::string_view> names);
  /// Throws for a field that none of these functions has named, with the nearest name.
  void finish() const;

  /// The name of a field in errors.
  std::string name_of(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  }

 private:
  static std::int64_t checked_whole(const Json& value, const std::string& name, std::int64_t lowest,
                                    std::int64_t highest);

  const Json& object_;
  std::string path_;
  std::vector<std::string> known_;
};

/// The error for a value of the wrong type.
RequestError wrong_type(const std::string& name, std::string_view expected, const Json& value);

/// A list of ids from 0 to vocab_size - 1. Throws RequestError; `name` is the field.
std::vector<std::int32_t> read_ids(const Json& list, const std::string& name, std::int64_t vocab_size);

}  // namespace vitrine
