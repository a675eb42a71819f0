// Numbers that remember how they were computed: text and value come from the same calls, so they cannot disagree.
#pragma once

#include <string>
#include <vector>

namespace vitrine {

/// "0.141", "−1.413", "3.1e-06" where so many digits behind the point would show nothing, "−∞".
std::string decimal(double value, int digits);

/// An expression over numbers.
class Arithmetic {
 public:
  /// A number, written with 4 digits behind the point.
  Arithmetic(double value);                                            // NOLINT: a number is one
  Arithmetic(float value) : Arithmetic(static_cast<double>(value)) {}  // NOLINT
  /// A number that is written as `text` (a rate of 0.5, say).
  Arithmetic(double value, std::string text);

  const std::string& text() const { return text_; }
  double value() const { return value_; }

  friend Arithmetic operator+(const Arithmetic& a, const Arithmetic& b);
  friend Arithmetic operator-(const Arithmetic& a, const Arithmetic& b);
  friend Arithmetic operator*(const Arithmetic& a, const Arithmetic& b);
  friend Arithmetic operator/(const Arithmetic& a, const Arithmetic& b);
  /// exp, ln, tanh, erf, cos, sin, √
  friend Arithmetic function(const char* name, double (*f)(double), const Arithmetic& x);
  friend Arithmetic squared(const Arithmetic& x);
  friend Arithmetic larger(const Arithmetic& a, const Arithmetic& b);

 private:
  enum class Binding { sum, product, atom };

  Arithmetic(double value, std::string text, Binding binding)
      : value_(value), text_(std::move(text)), binding_(binding) {}
  std::string as_summand() const;  // behind + or −
  std::string as_factor() const;
  std::string as_divisor() const;

  double value_;
  std::string text_;
  Binding binding_;
};

Arithmetic function(const char* name, double (*f)(double), const Arithmetic& x);
Arithmetic squared(const Arithmetic& x);
Arithmetic larger(const Arithmetic& a, const Arithmetic& b);
/// The sum of at least one.
Arithmetic sum_of(const std::vector<Arithmetic>& terms);

}  // namespace vitrine
