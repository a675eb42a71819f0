// Numbers that record how they were computed. Text and value come from the same calls, so they always agree.
#pragma once

#include <string>
#include <vector>

namespace vitrine {

/// "0.141", "−1.413", "−∞"; "3.1e-06" if `digits` decimal places would show only zeros.
std::string decimal(double value, int digits);

/// An expression over numbers.
class Arithmetic {
 public:
  /// A number, written with 4 decimal places.
  Arithmetic(double value);                                            // NOLINT: implicit
  Arithmetic(float value) : Arithmetic(static_cast<double>(value)) {}  // NOLINT: implicit
  /// A number that is written as `text`, such as a learning rate of 0.5.
  Arithmetic(double value, std::string text);

  const std::string& text() const { return text_; }
  double value() const { return value_; }
  /// Neither a sum nor a product.
  bool is_number() const { return binding_ == Binding::atom; }

  friend Arithmetic operator+(const Arithmetic& a, const Arithmetic& b);
  friend Arithmetic operator-(const Arithmetic& a, const Arithmetic& b);
  friend Arithmetic operator*(const Arithmetic& a, const Arithmetic& b);
  friend Arithmetic operator/(const Arithmetic& a, const Arithmetic& b);
  /// f(x), written as name(x): exp, ln, tanh, erf, cos, sin, √.
  friend Arithmetic function(const char* name, double (*f)(double), const Arithmetic& x);
  friend Arithmetic squared(const Arithmetic& x);
  friend Arithmetic larger(const Arithmetic& a, const Arithmetic& b);
  /// The sum of one or more terms, in their order.
  friend Arithmetic sum_of(const std::vector<Arithmetic>& terms);
  /// Adds a term that is not written.
  void add_unwritten(double term) { value_ += term; }

 private:
  enum class Binding { sum, product, atom };

  Arithmetic(double value, std::string text, Binding binding)
      : value_(value), text_(std::move(text)), binding_(binding) {}
  std::string as_operand() const;  // of a product, or after + or −
  std::string as_divisor() const;
  std::string as_summand() const;  // with its sign, after the first

  double value_;
  std::string text_;
  Binding binding_;
};

}  // namespace vitrine
