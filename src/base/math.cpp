#include "base/math.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace vitrine::math {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLog2E = 0x1.71547652b82fep+0;

/// The nearest integer, for |x| < 2^51. The addition rounds, because doubles above 2^52 have no fraction.
double nearest(double x) { return x + 0x1.8p52 - 0x1.8p52; }

/// 2^n for n in [-1022, 1023], as two's complement.
double power_of_two(std::uint64_t n) { return std::bit_cast<double>((n + 1023) << 52U); }
double power_of_two(std::int64_t n) { return power_of_two(static_cast<std::uint64_t>(n)); }

/// y · 2^n for y near 1, rounded once.
double scaled(double y, double n) {
  const auto exponent = static_cast<std::int64_t>(n), half = exponent / 2;
  return y * power_of_two(half) * power_of_two(exponent - half);
}

/// An unevaluated sum of two doubles, |low| at most half a unit in the last place of high: some 104 bits. Source:
/// Dekker 1971; Joldes, Muller & Popescu 2017 (their accurate addition).
struct Twofold {
  double high, low = 0;
};

/// a + b, exact.
Twofold exact_sum(double a, double b) {
  const double sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}
/// a + b, exact, for |a| ≥ |b|.
Twofold normalized(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}
/// a · b, exact.
Twofold exact_product(double a, double b) {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}
Twofold operator-(Twofold a) { return {-a.high, -a.low}; }
Twofold operator+(Twofold a, Twofold b) {
  const Twofold high = exact_sum(a.high, b.high), low = exact_sum(a.low, b.low);
  const Twofold sum = normalized(high.high, high.low + low.high);
  return normalized(sum.high, sum.low + low.low);
}
Twofold operator*(Twofold a, Twofold b) {
  const Twofold product = exact_product(a.high, b.high);
  return normalized(product.high, product.low + (a.high * b.low + a.low * b.high));
}
Twofold operator*(Twofold a, double b) {
  const Twofold product = exact_product(a.high, b);
  return normalized(product.high, product.low + a.low * b);
}
Twofold operator/(Twofold a, Twofold b) {
  const double first = a.high / b.high;
  return normalized(first, (a + -(b * first)).high / b.high);
}
Twofold operator/(Twofold a, double b) {
  const double first = a.high / b;
  return normalized(first, (std::fma(-first, b, a.high) + a.low) / b);
}

constexpr Twofold kLn2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
constexpr Twofold kOneOverRootPi = {0x1.20dd750429b6dp-1, 0x1.1ae3a914fed80p-57};

/// exp(r) for |r| < 0.4: the Taylor series of exp(r / 32), with its small terms as doubles, squared five times.
Twofold exp_of_small(Twofold r) {
  r = r * 0x1p-5;
  double rest = 1;
  for (double k = 14; k > 8; --k) rest = 1 + r.high * rest / k;
  Twofold sum = {rest};
  for (double k = 8; k >= 1; --k) sum = Twofold{1} + r * sum / k;
  for (int i = 0; i < 5; ++i) sum = sum * sum;
  return sum;
}

/// exp(x) = value · 2^exponent for |x| < 10^4.
struct Exponential {
  Twofold value;
  double exponent;

  explicit Exponential(Twofold x) {
    exponent = nearest(x.high * kLog2E);
    value = exp_of_small(x + -(kLn2 * exponent));
  }
  /// factor · exp(x)
  double times(Twofold factor) const {
    if (exponent > 1025) return kInfinity;
    if (exponent < -1100) return 0;
    return scaled((value * factor).high, exponent);
  }
};

/// x = 2^exponent · mantissa, mantissa in [√½, √2), for finite x > 0.
struct Split {
  double exponent, mantissa;

  explicit Split(double x) {
    const bool tiny = x < 0x1p-1022;
    constexpr std::int64_t kRootOfHalf = 0x3fe6a09e667f3bcd;
    const auto bits = std::bit_cast<std::int64_t>(tiny ? x * 0x1p54 : x);
    const std::int64_t n = (bits - kRootOfHalf) >> 52;
    exponent = static_cast<double>(n - (tiny ? 54 : 0));
    mantissa = std::bit_cast<double>(bits - n * (std::int64_t{1} << 52));
  }
};

/// The logarithm of a finite x > 0: a double-precision value, improved by one step of Newton's method on exp(y) = x.
Twofold accurate_log(double x) {
  const Split s(x);
  const double y = log(s.mantissa);
  const Twofold rest = exp_of_small({-y}) * s.mantissa + Twofold{-1};
  return kLn2 * s.exponent + (Twofold{y} + rest);
}

/// erf(x) = 2/√π exp(−x²) Σ 2^k x^(2k+1) / (2k+1)!!, whose terms all have the same sign. Source: Abramowitz & Stegun
/// 7.1.6.
Twofold erf_by_series(double x) {
  const Twofold square = exact_product(x, x);
  Twofold term = {x}, sum = term;
  for (double k = 3; std::abs(term.high) > 0x1p-110 * std::abs(sum.high); k += 2) {
    term = term * (square + square) / k;
    sum = sum + term;
  }
  const Exponential e(-square);
  return sum * e.value * (kOneOverRootPi + kOneOverRootPi) * power_of_two(static_cast<std::int64_t>(e.exponent));
}
constexpr double kSeries = 2;  // the series is used for x ≤ kSeries

/// erfc(x) = exp(−x²) / √π / (x + ½/(x + 1/(x + 1½/(x + …)))) for x > kSeries. Source: Abramowitz & Stegun 7.1.14.
double erfc_by_fraction(double x) {
  Twofold fraction = {x};
  for (double k = 200; k >= 1; --k) fraction = Twofold{x} + Twofold{k / 2} / fraction;
  return Exponential(-exact_product(x, x)).times(kOneOverRootPi / fraction);
}

/// x = n · π/2 + r with |r| ≤ π/4; n · kSecond is exact, as kSecond has 33 bits.
struct Quadrant {
  std::int64_t n;
  Twofold square, r;

  explicit Quadrant(double x) {
    constexpr double kFirst = 0x1.921fb54442d18p+0, kSecond = 0x1.1a626331p-54, kThird = 0x1.1701b839a252p-88;
    const double times = nearest(x * 0x1.45f306dc9c883p-1);
    r = Twofold{x} + -exact_product(times, kFirst) + Twofold{-times * kSecond} + Twofold{-times * kThird};
    square = r * r;
    n = static_cast<std::int64_t>(times);
  }
  /// 1 − r²/((first)(first + 1)) (1 − r²/((first + 2)(first + 3)) (…)): the cosine for first = 1, the sine divided by r
  /// for first = 2.
  Twofold series(double first) const {
    Twofold sum = {1};
    for (double k = first + 24; k >= first; k -= 2) sum = Twofold{1} + -(square * sum / (k * (k + 1)));
    return sum;
  }
  /// sin(n · π/2 + r)
  double sine() const {
    const double value = n % 2 == 0 ? (r * series(2)).high : series(1).high;
    return (n & 2) == 0 ? value : -value;
  }
};

/// 2^n exp(r), |r| ≤ ln 2 / 2 (Cody & Waite 1980); exp(r) = 1 + r + r² q(r), q by interpolation at Chebyshev nodes. It
/// has no branches and only operations that processors have for vectors, so GCC computes several at once in a loop.
inline double exp_of(double x) {
  x = x < -746 ? -746 : x;  // whose result is rounded to 0
  x = x > 710 ? 710 : x;    // and here to infinity
  constexpr double kRounder = 0x1.8p52;
  const double rounded = x * kLog2E + kRounder, n = rounded - kRounder;
  const double high = x - n * 0x1.62e42fefa38p-1, low = n * 0x1.ef35793c7673p-45;  // the first product is exact
  const double r = high - low, rest = (high - r) - low, z = r * r;
  const double even =
      0.5 + z * (0x1.5555555555556p-5 +
                 z * (0x1.6c16c16c162d4p-10 +
                      z * (0x1.a01a01a6d889cp-16 + z * (0x1.27e4db646b17ep-22 + z * 0x1.1f730349868cep-29))));
  const double odd = 0x1.5555555555557p-3 +
                     z * (0x1.11111111100dcp-7 +
                          z * (0x1.a01a01abe7fe1p-13 + z * (0x1.71de0231960ebp-19 + z * 0x1.af4de97ca4194p-26)));
  // 2^n as two factors, because n is down to -1076.
  const std::uint64_t whole = std::bit_cast<std::uint64_t>(rounded) - std::bit_cast<std::uint64_t>(kRounder);
  const std::uint64_t half = ((whole + 2048) >> 1U) - 1024;
  return (1 + (r + (z * (even + r * odd) + rest))) * power_of_two(half) * power_of_two(whole - half);
}

template <std::size_t N>
double polynomial(const double (&c)[N], double x) {
  double y = c[N - 1];
  for (std::size_t i = N - 1; i-- > 0;) y = y * x + c[i];
  return y;
}

}  // namespace

double exp(double x) { return exp_of(x); }

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
// Compiled for several instruction sets, of which the loader takes the best; all have the same operations and bits.
// (The loader chooses before TSan's runtime has begun, whose calls in the choice would end the process.)
[[gnu::target_clones("avx512f", "avx2", "default")]]
#endif
void exp(std::span<const double> x, double* y) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = exp_of(x[i]);
}

/// k ln 2 + log(1 + f) with s = f / (2 + f): log(1 + f) = 2s + s · R(s²) = f − (f²/2 − s (f²/2 + R)), whose large part
/// f is exact; R by interpolation at Chebyshev nodes.
double log(double x) {
  if (!(x > 0)) return x == 0 ? -kInfinity : kNaN;
  if (x == kInfinity) return x;
  const Split split(x);
  const double k = split.exponent, f = split.mantissa - 1;
  const double s = f / (2 + f), z = s * s, half_square = 0.5 * f * f;
  const double r =
      z * (0x1.5555555555558p-1 +
           z * (0x1.99999999952d7p-2 +
                z * (0x1.2492492df281ap-2 +
                     z * (0x1.c71c62e3f11e5p-3 +
                          z * (0x1.7462b51cb66eap-3 + z * (0x1.39fe51a7c12d9p-3 + z * 0x1.2b5900de57b3bp-3))))));
  const double low = s * (half_square + r) + k * 0x1.ef35793c7673p-45;
  return k * 0x1.62e42fefa38p-1 - ((half_square - low) - f);
}

double pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (!(x >= 0) || y != y) return kNaN;
  if (x == 0 || x == kInfinity) return (x == 0) == (y > 0) ? 0 : kInfinity;
  if (std::abs(y) == kInfinity) return (x < 1) == (y > 0) ? 0 : kInfinity;
  if (std::abs(y * log(x)) > 1000) return (x < 1) == (y > 0) ? 0 : kInfinity;
  return Exponential(accurate_log(x) * y).times({1});
}

double erf(double x) {
  if (std::abs(x) <= kSeries) return erf_by_series(x).high;
  return x < 0 ? erfc(-x) - 1 : 1 - erfc(x);
}

double erfc(double x) {
  if (x != x) return x;
  if (std::abs(x) <= kSeries) return (Twofold{1} + -erf_by_series(x)).high;
  if (std::abs(x) > 28) return x < 0 ? 2 : 0;
  return x < 0 ? 2 - erfc_by_fraction(-x) : erfc_by_fraction(x);
}

double tanh(double x) {
  const double magnitude = std::abs(x);
  if (!(magnitude > 1e-8)) return x;  // also for NaN
  if (magnitude > 20) return std::copysign(1.0, x);
  const Exponential e({-2 * magnitude});
  const Twofold square = e.value * power_of_two(static_cast<std::int64_t>(e.exponent));
  return std::copysign(((Twofold{1} + -square) / (Twofold{1} + square)).high, x);
}

double sin(double x) { return std::abs(x) <= 0x1p20 ? Quadrant(x).sine() : kNaN; }

double cos(double x) {
  if (!(std::abs(x) <= 0x1p20)) return kNaN;
  Quadrant q(x);
  ++q.n;
  return q.sine();
}

/// Source: Wichura 1988, algorithm AS 241 (PPND16).
double normal_quantile(double p) {
  static constexpr double a[] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                                 1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                 3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static constexpr double b[] = {1.0,
                                 4.2313330701600911252e+1,
                                 6.8718700749205790830e+2,
                                 5.3941960214247511077e+3,
                                 2.1213794301586595867e+4,
                                 3.9307895800092710610e+4,
                                 2.8729085735721942674e+4,
                                 5.2264952788528545610e+3};
  static constexpr double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                 3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                 2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double d[] = {1.0,
                                 2.05319162663775882187e0,
                                 1.67638483018380384940e0,
                                 6.89767334985100004550e-1,
                                 1.48103976427480074590e-1,
                                 1.51986665636164571966e-2,
                                 5.47593808499534494600e-4,
                                 1.05075007164441684324e-9};
  static constexpr double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                                 2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                 2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double f[] = {1.0,
                                 5.99832206555887937690e-1,
                                 1.36929880922735805310e-1,
                                 1.48753612908506148525e-2,
                                 7.86869131145613259100e-4,
                                 1.84631831751005468180e-5,
                                 1.42151175831644588870e-7,
                                 2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  const double r = std::sqrt(-log(std::min(p, 1 - p)));
  const double x =
      r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6) : polynomial(e, r - 5) / polynomial(f, r - 5);
  return q < 0 ? -x : x;
}

}  // namespace vitrine::math
