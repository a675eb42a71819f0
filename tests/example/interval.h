// Evaluates arithmetic that is written with rounded numbers. Every number represents the interval of values that round
// to it. The result is an interval, too, and must contain the computed value.
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>

namespace vitrine::test {

struct Interval {
  double low = 0, high = 0;

  bool contains(double x, double slack) const { return low - slack <= x && x <= high + slack; }
};

class IntervalReader {
 public:
  explicit IntervalReader(std::string_view text) : text_(text) {}

  Interval read() {
    const Interval result = sum();
    if (at_ != text_.size()) fail("the end");
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("expected " + what + " at " + std::string(text_.substr(at_)) + " in " +
                             std::string(text_));
  }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }

  Interval sum() {
    Interval x = product();
    for (;;) {
      if (take(" + ")) {
        const Interval y = product();
        x = {x.low + y.low, x.high + y.high};
      } else if (take(" − ")) {
        const Interval y = product();
        x = {x.low - y.high, x.high - y.low};
      } else {
        return x;
      }
    }
  }

  static Interval times(const Interval& x, const Interval& y) {
    const auto [low, high] = std::minmax({x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high});
    return {low, high};
  }

  Interval product() {
    Interval x = power();
    for (;;) {
      if (take("·")) {
        x = times(x, power());
      } else if (take(" / ")) {
        const Interval y = power();
        if (y.low <= 0 && y.high >= 0) return {-HUGE_VAL, HUGE_VAL};
        x = times(x, {1 / y.high, 1 / y.low});
      } else {
        return x;
      }
    }
  }

  Interval power() {
    const Interval x = atom();
    if (!take("²")) return x;
    const double a = x.low * x.low, b = x.high * x.high;
    return {x.low <= 0 && x.high >= 0 ? 0 : std::min(a, b), std::max(a, b)};
  }

  Interval bracketed() {
    const Interval x = sum();
    if (!take(")")) fail(")");
    return x;
  }

  Interval atom() {
    if (take("−")) {
      const Interval x = atom();
      return {-x.high, -x.low};
    }
    if (take("max(")) {
      const Interval x = sum();
      if (!take(", ")) fail(",");
      const Interval y = bracketed();
      return {std::max(x.low, y.low), std::max(x.high, y.high)};
    }
    struct Rising {
      std::string_view name;
      double (*f)(double);
    };
    for (const Rising& r : {Rising{"exp(", std::exp}, {"ln(", std::log}, {"tanh(", std::tanh}, {"erf(", std::erf}}) {
      if (!take(r.name)) continue;
      const Interval x = bracketed();
      return {r.f(x.low), r.f(x.high)};
    }
    if (take("√(")) {
      const Interval x = bracketed();
      return {std::sqrt(std::max(0.0, x.low)), std::sqrt(x.high)};
    }
    for (const Rising& r : {Rising{"cos(", std::cos}, {"sin(", std::sin}}) {
      if (!take(r.name)) continue;
      const Interval x = bracketed();
      const double middle = r.f((x.low + x.high) / 2), half = (x.high - x.low) / 2;  // the slope is at most 1
      return {middle - half, middle + half};
    }
    if (take("(")) return bracketed();
    return number();
  }

  Interval number() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '.'))
      ++at_;
    const std::string digits(text_.substr(begin, at_ - begin));
    if (digits.empty()) fail("a number");
    const std::size_t point = digits.find('.');
    const auto decimals = point == std::string::npos ? 0.0 : static_cast<double>(digits.size() - point - 1);
    std::string exponent;
    if (take("e-")) {
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) exponent += text_[at_++];
    }
    const double scale = exponent.empty() ? 1 : std::pow(10.0, -std::stod(exponent));
    const double x = std::stod(digits) * scale;
    const bool rounded = decimals == 4 || !exponent.empty();
    const double half = rounded ? 0.5000001 * std::pow(10.0, -decimals) * scale : 0;
    return {x - half, x + half};
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace vitrine::test
