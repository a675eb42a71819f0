#include "ops/arithmetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr int kDigits = 4;
const std::string kMinus = "−";

bool is_negative(const std::string& text) { return text.starts_with(kMinus); }

}  // namespace

std::string decimal(double value, int digits) {
  if (std::isinf(value)) return value < 0 ? "−∞" : "∞";
  std::string text = fmt::format("{:.{}f}", std::abs(value), digits);
  constexpr std::array kHalfOfLast = {0.5, 0.05, 0.005, 0.0005, 0.00005, 0.000005, 0.0000005};  // of the last digit
  const double half = kHalfOfLast[std::min(static_cast<std::size_t>(digits), kHalfOfLast.size() - 1)];
  const bool shows_nothing = value != 0 && std::abs(value) < half;
  if (shows_nothing) text = fmt::format("{:.{}e}", std::abs(value), digits > 1 ? digits - 2 : 0);
  return value < 0 ? kMinus + text : text;
}

Arithmetic::Arithmetic(double value) : value_(value), text_(decimal(value, kDigits)), binding_(Binding::atom) {}

Arithmetic::Arithmetic(double value, std::string text)
    : value_(value), text_(std::move(text)), binding_(Binding::atom) {}

std::string Arithmetic::as_operand() const {
  return binding_ == Binding::sum || is_negative(text_) ? "(" + text_ + ")" : text_;
}

std::string Arithmetic::as_divisor() const {
  return binding_ != Binding::atom || is_negative(text_) ? "(" + text_ + ")" : text_;
}

std::string Arithmetic::as_summand() const {
  // A negative number is subtracted: 1 − 2, not 1 + (−2).
  if (binding_ == Binding::atom && is_negative(text_)) return " − " + text_.substr(kMinus.size());
  return " + " + (is_negative(text_) ? as_operand() : text_);
}

Arithmetic operator+(const Arithmetic& a, const Arithmetic& b) {
  return {a.value_ + b.value_, a.text_ + b.as_summand(), Arithmetic::Binding::sum};
}

Arithmetic operator-(const Arithmetic& a, const Arithmetic& b) {
  return {a.value_ - b.value_, a.text_ + " − " + b.as_operand(), Arithmetic::Binding::sum};
}

Arithmetic operator*(const Arithmetic& a, const Arithmetic& b) {
  return {a.value_ * b.value_, a.as_operand() + "·" + b.as_operand(), Arithmetic::Binding::product};
}

Arithmetic operator/(const Arithmetic& a, const Arithmetic& b) {
  return {a.value_ / b.value_, a.as_operand() + " / " + b.as_divisor(), Arithmetic::Binding::product};
}

Arithmetic function(const char* name, double (*f)(double), const Arithmetic& x) {
  return {f(x.value_), name + ("(" + x.text_ + ")"), Arithmetic::Binding::atom};
}

Arithmetic squared(const Arithmetic& x) {
  return {x.value_ * x.value_, x.as_divisor() + "²", Arithmetic::Binding::atom};
}

Arithmetic larger(const Arithmetic& a, const Arithmetic& b) {
  return {std::max(a.value_, b.value_), "max(" + a.text_ + ", " + b.text_ + ")", Arithmetic::Binding::atom};
}

Arithmetic sum_of(const std::vector<Arithmetic>& terms) {
  if (terms.empty()) throw InternalError("example", "a sum without terms");
  Arithmetic sum = terms.front();
  for (std::size_t i = 1; i < terms.size(); ++i) {
    sum.value_ += terms[i].value_;
    sum.text_ += terms[i].as_summand();
    sum.binding_ = Arithmetic::Binding::sum;
  }
  return sum;
}

}  // namespace vitrine
