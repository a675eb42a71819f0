// The options of a call, as a JSON object with the program's names.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace vitrine {

/// Reads options and remembers them. An option that is null counts as absent. Throws BadInput for a value of the wrong
/// type or out of range.
class CallOptions {
 public:
  /// `json` may be null: no options. Throws BadInput for anything but an object.
  explicit CallOptions(const char* json);

  bool flag(const std::string& name);
  std::optional<std::string> text(const std::string& name);
  std::vector<std::string> texts(const std::string& name);  ///< A list, or one text.
  std::optional<std::vector<std::int32_t>> ids(const std::string& name);
  std::optional<double> number(const std::string& name);
  template <std::integral T>
  std::optional<T> whole(const std::string& name, T lowest, T highest = std::numeric_limits<T>::max()) {
    const Json* const value = find(name);
    if (value == nullptr) return std::nullopt;
    const bool fits = value->is_number_integer() && *value >= lowest && *value <= highest;
    if (!fits) {
      fail(name, "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest), *value);
    }
    return value->get<T>();
  }
  /// Throws BadInput for an option that none of these functions has named, with the nearest name.
  void finish() const;

 private:
  const Json* find(const std::string& name);
  [[noreturn]] static void fail(const std::string& name, const std::string& expected, const Json& value);

  Json object_ = Json::object();
  std::vector<std::string> known_;
};

}  // namespace vitrine
