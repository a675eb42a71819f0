// Reads the members of a JSON object that a caller has written: their types, their ranges, and that every one is known.
#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace vitrine {

/// Puts a value of the right type into `place`. Returns false for another type, and for a number that does not fit.
bool from_json(const Json& value, bool& place);
bool from_json(const Json& value, double& place);  ///< Finite.
bool from_json(const Json& value, std::string& place);
bool from_json(const Json& value, std::vector<std::string>& place);   ///< A list, or one string.
bool from_json(const Json& value, std::vector<std::int32_t>& place);  ///< Numbers of at least 0.
/// A whole number, which may be written as 3.0.
template <std::integral T>
bool from_json(const Json& value, T& place) {
  constexpr double kMax = std::int64_t{1} << 53;  // up to which doubles are exact
  if (value.is_number_float()) {
    const auto real = value.get<double>();
    return real >= -kMax && real <= kMax && from_json(Json(static_cast<std::int64_t>(real)), place) &&
           static_cast<double>(place) == real;
  }
  if (!value.is_number_integer()) return false;
  const auto take = [&](auto number) {
    if (!std::in_range<T>(number)) return false;
    place = static_cast<T>(number);
    return true;
  };
  return value.is_number_unsigned() ? take(value.get<std::uint64_t>()) : take(value.get<std::int64_t>());
}

/// A value as errors show it: a number or a boolean, else its type.
std::string shown(const Json& value);

/// A field that is null counts as absent. A derived class says how an error is thrown.
class ObjectFields {
 public:
  virtual ~ObjectFields() = default;

  /// The value of a field; null if it is absent.
  const Json* find(std::string_view name);

  template <class T>
  std::optional<T> get(std::string_view name, std::string_view expected) {
    const Json* const value = find(name);
    if (value == nullptr) return std::nullopt;
    T read{};
    if (!from_json(*value, read)) fail_value(name, expected, *value);
    return read;
  }
  std::optional<bool> flag(std::string_view name) { return get<bool>(name, "true or false"); }
  std::optional<std::string> text(std::string_view name) { return get<std::string>(name, "a string"); }
  std::optional<double> number(std::string_view name, double lowest, double highest);
  template <std::integral T>
  std::optional<T> whole(std::string_view name, T lowest, T highest = std::numeric_limits<T>::max()) {
    const std::string expected = "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest);
    const std::optional<T> number = get<T>(name, expected);
    if (number && !(lowest <= *number && *number <= highest)) fail_value(name, expected, *find(name));
    return number;
  }
  /// Accepts fields that have no effect.
  void ignore(std::initializer_list<std::string_view> names) {
    known_.insert(known_.end(), names.begin(), names.end());
  }
  /// Throws for a field that none of these functions has named, with the nearest name.
  void finish() const;

  [[noreturn]] void fail(std::string_view name, const std::string& message) const {
    std::rethrow_exception(error_of(name, message));
  }
  [[noreturn]] void fail_value(std::string_view name, std::string_view expected, const Json& value) const;

 protected:
  virtual std::exception_ptr error_of(std::string_view name, const std::string& message) const = 0;
  /// `object` is borrowed; `unknown` is the error of a field that is not known.
  ObjectFields(const Json& object, const char* unknown) : object_(object), unknown_(unknown) {}

 private:
  const Json& object_;
  const char* unknown_;
  std::vector<std::string> known_;
};

}  // namespace vitrine
