// vitrine's own math functions, compared with those of long double, which has eleven more bits.
#include "base/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

namespace vitrine {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

double error_in_ulps(double ours, long double exact) {
  const auto rounded = static_cast<double>(exact);
  if (ours == rounded) return 0;
  const double magnitude = std::fmax(std::fabs(rounded), 0x1p-1022);
  return static_cast<double>(std::fabs(static_cast<long double>(ours) - exact) /
                             std::ldexp(1.0L, std::ilogb(magnitude) - 52));
}

struct Case {
  const char* name;
  double (*ours)(double);
  long double (*exact)(long double);
  double from, to;
  double limit;  ///< ulps
  int n;
};

TEST(Math, IsWithinAUnitInTheLastPlace) {
  const Case cases[] = {
      {"exp", math::exp, expl, -1, 1, 0.9, 200'000},
      {"exp", math::exp, expl, -745.2, 709.8, 0.9, 200'000},
      {"exp, subnormal", math::exp, expl, -746, -700, 1, 200'000},
      {"log", math::log, logl, 0.5, 2, 0.9, 200'000},
      {"log, near 1", math::log, logl, 0.999, 1.001, 0.9, 200'000},
      {"log", math::log, logl, 0, 1e6, 0.9, 200'000},
      {"log, subnormal", math::log, logl, 0, 0x1p-1020, 0.9, 20'000},
      {"erf", math::erf, erfl, -6, 6, 0.51, 20'000},
      {"erf, near 0", math::erf, erfl, -1e-6, 1e-6, 0.51, 20'000},
      {"erfc", math::erfc, erfcl, -6, 2.5, 0.51, 20'000},
      {"erfc", math::erfc, erfcl, 1.9, 26.5, 0.51, 20'000},
      {"erfc, subnormal", math::erfc, erfcl, 26.5, 28.5, 1, 20'000},
      {"tanh", math::tanh, tanhl, -25, 25, 0.51, 20'000},
      {"tanh, near 0", math::tanh, tanhl, -1e-7, 1e-7, 0.51, 20'000},
      {"sin", math::sin, sinl, -10, 10, 0.51, 20'000},
      {"sin", math::sin, sinl, -0x1p20, 0x1p20, 0.51, 20'000},
      {"cos", math::cos, cosl, -10, 10, 0.51, 20'000},
      {"cos", math::cos, cosl, -0x1p20, 0x1p20, 0.51, 20'000},
  };
  std::mt19937_64 random(1);
  for (const Case& c : cases) {
    std::uniform_real_distribution<double> draw(c.from, c.to);
    double worst = 0, at = 0;
    for (int i = 0; i < c.n; ++i) {
      const double x = draw(random), error = error_in_ulps(c.ours(x), c.exact(static_cast<long double>(x)));
      if (!(error <= worst)) worst = error, at = x;
    }
    std::printf("  %-16s [%g, %g]: %.3f ulp\n", c.name, c.from, c.to, worst);
    EXPECT_LE(worst, c.limit) << c.name << " of " << at;
  }
}

TEST(Math, PowersAreWithinAUnitInTheLastPlace) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> wide(-300, 300), near(-1e-3, 1e-3), exponent(-3, 3), large(-5e5, 5e5);
  double worst = 0;
  for (int i = 0; i < 40'000; ++i) {
    const bool is_near = i % 2 == 0;  // of 1, where a large exponent makes the logarithm's error visible
    const double x = is_near ? 1 + near(random) : std::exp(wide(random));
    const double y = is_near ? large(random) : exponent(random);
    const long double exact = powl(static_cast<long double>(x), static_cast<long double>(y));
    worst = std::fmax(worst, error_in_ulps(math::pow(x, y), exact));
  }
  std::printf("  pow: %.3f ulp\n", worst);
  EXPECT_LE(worst, 0.51);
  for (int k = -330; k <= 310; ++k) {
    EXPECT_EQ(math::pow(10, k), std::strtod(("1e" + std::to_string(k)).c_str(), nullptr)) << k;
  }
}

/// Arguments next to multiples of π/2, where most bits cancel in the reduction.
TEST(Math, SineAndCosineNearTheirZeros) {
  for (double n = 1; n < 660'000; n += n < 1000 ? 1 : 997) {
    const double x = n * 1.5707963267948966;
    for (const double each : {x, std::nextafter(x, 0), -x}) {
      const auto wide = static_cast<long double>(each);
      EXPECT_LE(error_in_ulps(math::sin(each), sinl(wide)), 0.51) << each;
      EXPECT_LE(error_in_ulps(math::cos(each), cosl(wide)), 0.51) << each;
    }
  }
}

TEST(Math, ExponentialsOfManyHaveTheBitsOfEach) {
  std::vector<double> x = {0.0, -0.0, -746, -745.2, -744, 709.7, 709.8, 711, kInfinity, -kInfinity};
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> wide(-750, 715), near(-1e-3, 1e-3);
  for (int i = 0; i < 10'001; ++i) x.push_back(i % 4 == 0 ? near(random) : wide(random));
  std::vector<double> y(x.size());
  math::exp(x, y.data());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], math::exp(x[i])) << x[i];
  math::exp({&kNaN, 1}, y.data());
  EXPECT_TRUE(std::isnan(y[0]));
}

TEST(Math, SpecialValues) {
  EXPECT_EQ(math::exp(0), 1);
  EXPECT_EQ(math::exp(-kInfinity), 0);
  EXPECT_EQ(math::exp(kInfinity), kInfinity);
  EXPECT_EQ(math::exp(-745), 0x1p-1074);
  EXPECT_EQ(math::exp(709.79), kInfinity);
  EXPECT_EQ(math::log(1), 0);
  EXPECT_EQ(math::log(0), -kInfinity);
  EXPECT_EQ(math::log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(math::log(-1)));
  for (const double x : {0.0, 0.5, 1.0, 2.0, 1e300, kInfinity}) {
    for (const double y : {-kInfinity, -1e300, -2.0, -1.0, 0.0, 1.0, 2.0, 1e300, kInfinity}) {
      EXPECT_EQ(math::pow(x, y), std::pow(x, y)) << x << "^" << y;
    }
  }
  EXPECT_TRUE(std::isnan(math::pow(-1, 2)));
  EXPECT_EQ(math::erf(0), 0);
  EXPECT_EQ(math::erf(kInfinity), 1);
  EXPECT_EQ(math::erfc(0), 1);
  EXPECT_EQ(math::erfc(kInfinity), 0);
  EXPECT_EQ(math::erfc(-kInfinity), 2);
  EXPECT_EQ(math::tanh(kInfinity), 1);
  EXPECT_EQ(math::tanh(-kInfinity), -1);
  EXPECT_EQ(math::tanh(0), 0);
  EXPECT_EQ(math::sin(0), 0);
  EXPECT_EQ(math::cos(0), 1);
  EXPECT_TRUE(std::isnan(math::sin(0x1p21)));
  EXPECT_TRUE(std::isnan(math::cos(kInfinity)));
  for (const auto& f : {math::exp, math::log, math::erf, math::erfc, math::tanh, math::sin, math::cos}) {
    EXPECT_TRUE(std::isnan(f(kNaN)));
  }
  EXPECT_TRUE(std::isnan(math::pow(kNaN, 1)));
  EXPECT_TRUE(std::isnan(math::pow(2, kNaN)));
}

/// Φ(Φ⁻¹(p)) is p, in the middle and in both tails.
TEST(Math, QuantilesOfTheNormalDistribution) {
  EXPECT_EQ(math::normal_quantile(0.5), 0);
  EXPECT_NEAR(math::normal_quantile(0.95), 1.6448536269514722, 1e-15);
  for (const double p : {1e-300, 1e-20, 1e-5, 0.01, 0.07, 0.08, 0.3, 0.5, 0.9, 0.93, 0.99}) {
    const double q = math::normal_quantile(p);
    EXPECT_NEAR(math::erfc(-q / std::sqrt(2.0)) / 2, p, 2e-13 * p) << p;  // the tail's value is steep in q
    if (p < 0.01) continue;                                               // 1 − p rounds
    EXPECT_NEAR(math::normal_quantile(1 - p), -q, 2e-14) << p;
  }
}

/// The bits of 260,000 results, whatever the machine: computed once, on a processor with FMA.
TEST(Math, GivesTheSameBitsEverywhere) {
  std::mt19937_64 random(5);
  std::uint64_t hash = 0;
  const auto add = [&hash](double y) { hash = hash * 1099511628211u ^ std::bit_cast<std::uint64_t>(y); };
  for (int i = 0; i < 100'000; ++i) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53, x = u * 40 - 20;
    add(math::exp(x));
    add(math::log(u + 1e-9));
    if (i % 10 != 0) continue;
    add(math::pow(u * 10 + 0.01, x));
    add(math::erf(x / 5));
    add(math::erfc(x));
    add(math::tanh(x));
    add(math::sin(x));
    add(math::cos(x * 1000));
  }
  EXPECT_EQ(hash, 0x499e661b7423da9cu);
}

}  // namespace
}  // namespace vitrine
