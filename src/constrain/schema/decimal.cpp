#include "constrain/schema/decimal.h"

#include <algorithm>

namespace vitrine::constrain {
namespace {

std::strong_ordering compare_magnitude(const Decimal& a, const Decimal& b) {
  if (a.is_zero() || b.is_zero()) return b.is_zero() <=> a.is_zero();
  if (a.exponent != b.exponent) return a.exponent <=> b.exponent;
  return a.digits.compare(b.digits) <=> 0;
}

}  // namespace

Decimal Decimal::parse(std::string_view text) {
  Decimal value;
  value.negative = text.starts_with('-');
  if (value.negative) text.remove_prefix(1);
  std::int64_t exponent = 0;
  if (const std::size_t e = text.find_first_of("eE"); e != std::string_view::npos) {
    const bool is_negative = text[e + 1] == '-';
    for (const char c : text.substr(e + 1)) {
      if (c >= '0' && c <= '9') exponent = std::min<std::int64_t>(exponent * 10 + (c - '0'), 1'000'000'000);
    }
    if (is_negative) exponent = -exponent;
    text = text.substr(0, e);
  }
  const std::size_t point = std::min(text.find('.'), text.size());
  value.digits = std::string(text.substr(0, point)) + std::string(text.substr(std::min(point + 1, text.size())));
  value.exponent = exponent + static_cast<std::int64_t>(point);
  const std::size_t zeros = std::min(value.digits.find_first_not_of('0'), value.digits.size());
  value.digits.erase(0, zeros);
  value.exponent -= static_cast<std::int64_t>(zeros);
  value.digits.erase(value.digits.find_last_not_of('0') + 1);
  if (value.is_zero()) value = {};
  return value;
}

std::strong_ordering compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return b.negative <=> a.negative;
  return a.negative ? compare_magnitude(b, a) : compare_magnitude(a, b);
}

bool is_multiple(const Decimal& value, const Decimal& unit) {
  if (value.is_zero()) return true;
  // value / unit with both scaled to integers: the remainder digit by digit, in units of the last place of `unit`.
  const std::int64_t last = unit.exponent - static_cast<std::int64_t>(unit.digits.size());
  if (value.exponent - static_cast<std::int64_t>(value.digits.size()) < last) return false;  // digits below its last
  std::string rest;  // the remainder, without leading zeros
  const auto less = [&] {
    return rest.size() != unit.digits.size() ? rest.size() < unit.digits.size() : rest < unit.digits;
  };
  for (std::int64_t place = value.exponent - 1; place >= last; --place) {
    rest += value.digit(place);
    rest.erase(0, std::min(rest.find_first_not_of('0'), rest.size()));
    while (!less()) {  // at most nine times
      int borrow = 0;
      for (std::size_t i = 0; i < rest.size(); ++i) {
        const std::size_t at = rest.size() - 1 - i;
        int d = rest[at] - '0' - borrow - (i < unit.digits.size() ? unit.digits[unit.digits.size() - 1 - i] - '0' : 0);
        borrow = d < 0 ? 1 : 0;
        rest[at] = static_cast<char>('0' + d + 10 * borrow);
      }
      rest.erase(0, std::min(rest.find_first_not_of('0'), rest.size()));
    }
  }
  return rest.empty();
}

}  // namespace vitrine::constrain
