// Python's arithmetic: integers of 64 bits (an overflow is an error), floats, and what + * % do to text and lists.
#include <cmath>
#include <limits>

#include "base/math.h"
#include "template/format.h"
#include "template/renderer.h"

namespace vitrine::jinja {
namespace {

[[noreturn]] void fail_operands(const Value& a, const Value& b, const char* sign) {
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  throw type_error("unsupported operand type(s) for {}: '{}' and '{}'", sign, type_name(a), type_name(b));
}

bool are_integers(const Value& a, const Value& b) { return a.is_integer() && b.is_integer(); }
bool are_numbers(const Value& a, const Value& b) { return a.is_number() && b.is_number(); }

[[noreturn]] void fail_overflow() { throw error("unsupported", "an integer does not fit 64 bits"); }

Value joined(Renderer& renderer, const Value& a, const Value& b) {
  const bool is_markup = a.is_markup() || b.is_markup();
  Draft text = renderer.new_draft();
  text.reserve(a.text().size() + b.text().size());
  for (const Value* const v : {&a, &b}) {
    if (is_markup && !v->is_markup()) {
      text += escaped(v->text());
    } else {
      text += v->text();
    }
  }
  renderer.step(static_cast<std::int64_t>(text.size() / 256));
  return renderer.text(text, is_markup);
}

/// A list or tuple like `a`, with the items of both.
Value joined_lists(Renderer& renderer, const Value& a, const Value& b) {
  List* const made = renderer.heap().make<List>(renderer.heap());
  made->items.reserve(a.list->items.size() + b.list->items.size());
  for (const Value* const v : {&a, &b}) {
    made->items.insert(made->items.end(), v->list->items.begin(), v->list->items.end());
  }
  renderer.step(static_cast<std::int64_t>(made->items.size() / 16));
  return a.is(Kind::list) ? list(made) : tuple(made);
}

Value repeated(Renderer& renderer, const Value& sequence, const Value& count) {
  if (count.is_undefined()) fail_undefined(count);
  if (!count.is_integer()) throw type_error("can't multiply sequence by non-int of type '{}'", type_name(count));
  const std::size_t size = sequence.is_string() ? sequence.text().size() : sequence.list->items.size() * sizeof(Value);
  const auto times = static_cast<std::size_t>(size == 0 ? 0 : std::max<std::int64_t>(count.as_integer(), 0));
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(size, times, &bytes)) bytes = SIZE_MAX / 2;
  renderer.heap().check(bytes);
  renderer.step(static_cast<std::int64_t>(bytes / 256));
  if (sequence.is_string()) {
    Draft text = renderer.new_draft();
    text.reserve(bytes);
    for (std::size_t i = 0; i < times; ++i) text += sequence.text();
    return renderer.text(text, sequence.is_markup());
  }
  List* const made = renderer.heap().make<List>(renderer.heap());
  made->items.reserve(bytes / sizeof(Value));
  for (std::size_t i = 0; i < times; ++i) {
    made->items.insert(made->items.end(), sequence.list->items.begin(), sequence.list->items.end());
  }
  return sequence.is(Kind::list) ? list(made) : tuple(made);
}

[[noreturn]] void fail_zero(const char* what) { throw error("ZeroDivisionError", "{}", what); }

/// Python's // and % of floats: the remainder has the sign of the divisor.
std::pair<double, double> divided(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (b < 0) != (remainder < 0)) remainder += b;
  if (remainder == 0) remainder = std::copysign(0.0, b);
  return {std::round((a - remainder) / b), remainder};
}

/// x ** y of floats.
double real_power(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (std::isnan(x) || std::isnan(y)) return std::nan("");
  const bool is_negative = std::signbit(x) && std::isfinite(y) && std::fmod(y, 2) != 0;
  const double size = std::fabs(x);
  double result = 1;
  if (size == 0 || std::isinf(size) || std::isinf(y)) {
    if (size != 1) result = (size > 1) == (y > 0) ? HUGE_VAL : 0.0;
  } else {
    result = math::pow(size, y);
  }
  return is_negative ? -result : result;
}

Value integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) fail_zero("0.0 cannot be raised to a negative power");
    return real(real_power(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
  return integer(result);
}

}  // namespace

Value add(Renderer& renderer, const Value& a, const Value& b) {
  if (are_integers(a, b)) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a.as_integer(), b.as_integer(), &sum)) fail_overflow();
    return integer(sum);
  }
  if (are_numbers(a, b)) return real(a.as_real() + b.as_real());
  if (a.is_string() && b.is_string()) return joined(renderer, a, b);
  if (a.is_sequence() && a.kind == b.kind) return joined_lists(renderer, a, b);
  if (b.is_undefined()) fail_undefined(a.is_undefined() ? a : b);
  if (a.is_string() && !a.is_markup() && !b.is_markup()) {
    throw type_error("can only concatenate str (not \"{}\") to str", type_name(b));
  }
  if (a.is_sequence() && !b.is_markup()) {
    throw type_error("can only concatenate {0} (not \"{1}\") to {0}", type_name(a), type_name(b));
  }
  fail_operands(a, b, "+");
}

Value subtract(Renderer&, const Value& a, const Value& b) {
  if (are_integers(a, b)) {
    std::int64_t difference = 0;
    if (__builtin_sub_overflow(a.as_integer(), b.as_integer(), &difference)) fail_overflow();
    return integer(difference);
  }
  if (are_numbers(a, b)) return real(a.as_real() - b.as_real());
  fail_operands(a, b, "-");
}

Value multiply(Renderer& renderer, const Value& a, const Value& b) {
  if (are_integers(a, b)) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(a.as_integer(), b.as_integer(), &product)) fail_overflow();
    return integer(product);
  }
  if (are_numbers(a, b)) return real(a.as_real() * b.as_real());
  if (a.is_undefined()) fail_undefined(a);
  if (a.is_string() || a.is_sequence()) return repeated(renderer, a, b);
  if (b.is_string() || b.is_sequence()) return repeated(renderer, b, a);
  fail_operands(a, b, "*");
}

Value divide(Renderer&, const Value& a, const Value& b) {
  if (!are_numbers(a, b)) fail_operands(a, b, "/");
  if (b.as_real() == 0) fail_zero(are_integers(a, b) ? "division by zero" : "float division by zero");
  return real(a.as_real() / b.as_real());
}

Value floor_divide(Renderer&, const Value& a, const Value& b) {
  if (!are_numbers(a, b)) fail_operands(a, b, "//");
  if (are_integers(a, b)) {
    const std::int64_t x = a.as_integer(), y = b.as_integer();
    if (y == 0) fail_zero("integer division or modulo by zero");
    if (y == -1) {
      if (x == INT64_MIN) fail_overflow();
      return integer(-x);
    }
    return integer(x / y - (x % y != 0 && (x < 0) != (y < 0)));
  }
  if (b.as_real() == 0) fail_zero("float floor division by zero");
  return real(divided(a.as_real(), b.as_real()).first);
}

Value modulo(Renderer& renderer, const Value& a, const Value& b) {
  if (a.is_string()) return percent_format(renderer, a, b);
  if (!are_numbers(a, b)) fail_operands(a, b, "%");
  if (are_integers(a, b)) {
    const std::int64_t x = a.as_integer(), y = b.as_integer();
    if (y == 0) fail_zero("integer modulo by zero");
    if (y == -1) return integer(0);
    const std::int64_t rest = x % y;
    return integer(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
  }
  if (b.as_real() == 0) fail_zero("float modulo");
  return real(divided(a.as_real(), b.as_real()).second);
}

Value power(Renderer&, const Value& a, const Value& b) {
  if (!are_numbers(a, b)) fail_operands(a, b, "** or pow()");
  if (are_integers(a, b)) return integer_power(a.as_integer(), b.as_integer());
  const double x = a.as_real(), y = b.as_real();
  if (x == 0 && y < 0) fail_zero("0.0 cannot be raised to a negative power");
  if (x < 0 && std::isfinite(x) && std::isfinite(y) && y != std::floor(y)) {
    throw error("unsupported", "complex numbers are not supported");
  }
  const double result = real_power(x, y);
  if (std::isinf(result) && std::isfinite(x) && std::isfinite(y)) {
    throw error("OverflowError", "(34, 'Numerical result out of range')");
  }
  return real(result);
}

Value negative(const Value& a) {
  if (a.is_undefined()) fail_undefined(a);
  if (a.is(Kind::real)) return real(-a.real);
  if (!a.is_integer()) throw type_error("bad operand type for unary -: '{}'", type_name(a));
  if (a.as_integer() == INT64_MIN) fail_overflow();
  return integer(-a.as_integer());
}

Value positive(const Value& a) {
  if (a.is_undefined()) fail_undefined(a);
  if (a.is(Kind::real)) return a;
  if (!a.is_integer()) throw type_error("bad operand type for unary +: '{}'", type_name(a));
  return integer(a.as_integer());
}

Value inverse(const Value& a) { return boolean(!is_true(a)); }

Value truncated(double number) {
  if (std::isnan(number)) throw value_error("cannot convert float NaN to integer");
  if (std::isinf(number)) throw error("OverflowError", "cannot convert float infinity to integer");
  if (std::fabs(number) >= 9.2e18) fail_overflow();
  return integer(static_cast<std::int64_t>(number));
}

}  // namespace vitrine::jinja
