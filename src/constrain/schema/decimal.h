// Numbers of JSON as exact decimals of any size.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace vitrine::constrain {

/// ±0.digits × 10^exponent. The digits have no zero at either end; those of 0 are "".
struct Decimal {
  bool negative = false;
  std::string digits{};
  std::int64_t exponent = 0;

  /// `text` must be a number of JSON.
  static Decimal parse(std::string_view text);
  bool is_zero() const { return digits.empty(); }
  bool is_integer() const { return static_cast<std::int64_t>(digits.size()) <= exponent || is_zero(); }
  /// The digit that has the value 10^place; '0' beyond its digits.
  char digit(std::int64_t place) const {
    const std::int64_t index = exponent - 1 - place;
    return index >= 0 && index < static_cast<std::int64_t>(digits.size()) ? digits[static_cast<std::size_t>(index)]
                                                                          : '0';
  }
  bool operator==(const Decimal&) const = default;
};

std::strong_ordering compare(const Decimal& a, const Decimal& b);

/// Whether `value` is a whole multiple of `unit`, which is positive. Their digits must be less than 10^6 places apart.
bool is_multiple(const Decimal& value, const Decimal& unit);

}  // namespace vitrine::constrain
