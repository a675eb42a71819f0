// The errors of exp, tanh, sin, cos and the activations, and the agreement of all instruction sets.
#include <functional>

#include "kernels/kernel_testing.h"

namespace vitrine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Row = std::function<void(const Kernels& k, const float* x, std::int64_t n, float* y)>;

void exp_row(const Kernels& k, const float* x, std::int64_t n, float* y) { k.exp_sum(x, n, 0.0f, y); }
void tanh_row(const Kernels& k, const float* x, std::int64_t n, float* y) { k.softcap(x, n, 1.0f, y); }
Row activation_row(Activation act) {
  return [act](const Kernels& k, const float* x, std::int64_t n, float* y) { k.activate(act, x, n, y); };
}

/// Every 2^k-th float between two floats of one sign, k so that there are about 200,000.
std::vector<float> dense(float from, float to) {
  auto first = std::bit_cast<std::uint32_t>(from);
  auto last = std::bit_cast<std::uint32_t>(to);
  if (first > last) std::swap(first, last);
  const std::uint32_t step = std::max((last - first) / 200'000u, 1u);
  std::vector<float> out;
  for (std::uint32_t bits = first; bits <= last; bits += step) out.push_back(std::bit_cast<float>(bits));
  return out;
}

double ulp_of(double exact) {
  const double magnitude = std::fabs(exact);
  return magnitude < 0x1p-126 ? 0x1p-149 : std::ldexp(1.0, std::ilogb(magnitude) - 23);
}

struct Error {
  double ulps = 0, absolute = 0, relative = 0;
};

/// The largest errors over a range, by the best table of this machine.
Error worst(const std::string& what, const Row& row, const std::function<double(double)>& exact, float from, float to) {
  const std::vector<float> x = dense(from, to);
  std::vector<float> y(x.size());
  row(kernels_for(available_isas().back()), x.data(), static_cast<std::int64_t>(x.size()), y.data());
  Error worst;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double truth = exact(static_cast<double>(x[i]));
    const double error = std::fabs(static_cast<double>(y[i]) - truth);
    worst.ulps = std::max(worst.ulps, error / ulp_of(truth));
    worst.absolute = std::max(worst.absolute, error);
    if (truth != 0.0) worst.relative = std::max(worst.relative, error / std::fabs(truth));
  }
  std::printf("  %-28s [%g, %g]: %.3f ulp, absolute %.3g, relative %.3g\n", what.c_str(), static_cast<double>(from),
              static_cast<double>(to), worst.ulps, worst.absolute, worst.relative);
  return worst;
}

float at(const Row& row, float x) {
  float y;
  row(kernels_for(available_isas().back()), &x, 1, &y);
  return y;
}

TEST(KernelMath, ExpIsWithinOneUlpIncludingSubnormals) {
  const auto exact = [](double x) { return std::exp(x); };
  EXPECT_LE(worst("exp", exp_row, exact, 1e-9f, 88.72283f).ulps, 1.0);
  EXPECT_LE(worst("exp", exp_row, exact, -1e-9f, -87.3f).ulps, 1.0);
  EXPECT_LE(worst("exp, subnormal", exp_row, exact, -87.3f, -104.0f).ulps, 1.0);
  EXPECT_EQ(at(exp_row, -kInfinity), 0.0f);
  EXPECT_EQ(at(exp_row, -104.0f), 0.0f);
  EXPECT_GT(at(exp_row, -103.9f), 0.0f);
  EXPECT_EQ(at(exp_row, 0.0f), 1.0f);
  EXPECT_EQ(at(exp_row, 88.73f), kInfinity);
  EXPECT_EQ(at(exp_row, kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(at(exp_row, std::nanf(""))));
}

TEST(KernelMath, TanhIsWithinTwoUlpAndOdd) {
  const auto exact = [](double x) { return std::tanh(x); };
  EXPECT_LE(worst("tanh", tanh_row, exact, 1e-42f, 0.624f).ulps, 2.0);
  EXPECT_LE(worst("tanh", tanh_row, exact, 0.624f, 100.0f).ulps, 2.0);
  EXPECT_LE(worst("tanh", tanh_row, exact, -1e-9f, -100.0f).ulps, 2.0);
  EXPECT_EQ(at(tanh_row, kInfinity), 1.0f);
  EXPECT_EQ(at(tanh_row, -kInfinity), -1.0f);
  EXPECT_TRUE(same_bits(at(tanh_row, -0.0f), -0.0f));
  EXPECT_TRUE(std::isnan(at(tanh_row, std::nanf(""))));
}

TEST(KernelMath, SinAndCosUpToTwoToTheTwenty) {
  const Row sin_row = [](const Kernels& k, const float* x, std::int64_t n, float* y) {
    std::vector<float> cos(static_cast<std::size_t>(n));
    k.sin_cos(x, n, y, cos.data());
  };
  const Row cos_row = [](const Kernels& k, const float* x, std::int64_t n, float* y) {
    std::vector<float> sin(static_cast<std::size_t>(n));
    k.sin_cos(x, n, sin.data(), y);
  };
  for (const float sign : {1.0f, -1.0f}) {
    for (const auto& [from, to] : {std::pair{1e-30f, 1.0f}, {1.0f, 100.0f}, {100.0f, 0x1p20f}}) {
      const auto sin = [](double x) { return std::sin(x); };
      const auto cos = [](double x) { return std::cos(x); };
      EXPECT_LE(worst("sin", sin_row, sin, sign * from, sign * to).absolute, 1.2e-7);
      EXPECT_LE(worst("cos", cos_row, cos, sign * from, sign * to).absolute, 1.2e-7);
    }
  }
  EXPECT_EQ(at(sin_row, 0.0f), 0.0f);
  EXPECT_EQ(at(cos_row, 0.0f), 1.0f);
}

TEST(KernelMath, ActivationsKeepTheirRelativeAccuracyInTheTails) {
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  const auto gelu_tanh = [](double x) {  // 0.5 (1 + tanh a) = 1 / (1 + exp(-2a)), which does not cancel
    return x / (1 + std::exp(-2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  };
  const auto gelu_erf = [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); };
  const struct {
    const char* name;
    Activation act;
    std::function<double(double)> exact;
    double relative;  // in the negative tail, where the argument of exp is large
    float tail;
  } cases[] = {{"silu", Activation::silu, silu, 3e-7, -80.0f},
               {"gelu_tanh", Activation::gelu_tanh, gelu_tanh, 1.5e-5, -9.0f},
               {"gelu_erf", Activation::gelu_erf, gelu_erf, 5e-7, -12.0f}};
  for (const auto& c : cases) {
    const Row row = activation_row(c.act);
    EXPECT_LE(worst(c.name, row, c.exact, 1e-30f, 50.0f).relative, 4e-7) << c.name;
    EXPECT_LE(worst(c.name, row, c.exact, -1e-30f, -1.0f).relative, 6e-7) << c.name;
    EXPECT_LE(worst(c.name, row, c.exact, -1.0f, c.tail).relative, c.relative) << c.name;
    EXPECT_LE(worst(c.name, row, c.exact, -1e-9f, -3e38f).absolute, 2e-7) << c.name;
    for (const float large : {1e19f, 1e30f, 3e38f}) {
      EXPECT_EQ(at(row, large), large) << c.name;
      EXPECT_EQ(at(row, -large), 0.0f) << c.name;
    }
    EXPECT_EQ(at(row, 0.0f), 0.0f) << c.name;
    EXPECT_EQ(at(row, kInfinity), kInfinity) << c.name;
    EXPECT_TRUE(std::isnan(at(row, std::nanf("")))) << c.name;
  }
  const Row relu = activation_row(Activation::relu);
  EXPECT_EQ(at(relu, -2.0f), 0.0f);
  EXPECT_EQ(at(relu, 2.0f), 2.0f);
  EXPECT_TRUE(std::isnan(at(relu, std::nanf(""))));
  const Row relu_squared = activation_row(Activation::relu_squared);
  EXPECT_EQ(at(relu_squared, -2.0f), 0.0f);
  EXPECT_EQ(at(relu_squared, 3.0f), 9.0f);
  EXPECT_TRUE(std::isnan(at(relu_squared, std::nanf(""))));
}

TEST(KernelMath, TheBendOfXieluKeepsItsRelativeAccuracyNearZero) {
  constexpr float kMost = -1e-6f;
  const Row bend = [](const Kernels& k, const float* x, std::int64_t n, float* y) { k.bend(x, n, kMost, y); };
  const Row slope = [](const Kernels& k, const float* x, std::int64_t n, float* y) { k.bend_slope(x, n, kMost, y); };
  const auto exact = [](double x) { return std::expm1(x) - x; };
  // expm1(x) - x cancels for small x in double precision, too: there its series is exact enough.
  const auto series = [](double x) { return x * x * (0.5 + x * (1 / 6.0 + x * (1 / 24.0 + x / 120))); };
  EXPECT_LE(worst("bend", bend, series, -2e-6f, -1e-2f).relative, 1e-6);
  EXPECT_LE(worst("bend", bend, exact, -1e-2f, -80.0f).relative, 2e-6);
  EXPECT_LE(worst(
                "slope", slope, [](double x) { return std::expm1(x); }, -2e-6f, -80.0f)
                .relative,
            1e-6);
  EXPECT_EQ(at(bend, 2.0f), 0.0f);
  EXPECT_EQ(at(slope, 2.0f), 0.0f);
  EXPECT_EQ(at(slope, -5e-7f), -1.0f);
  EXPECT_NEAR(at(bend, -5e-7f), -1e-6f + 5e-7f, 1e-12f);
  EXPECT_TRUE(std::isnan(at(bend, std::nanf(""))));
}

TEST(KernelMath, SoftplusIsWithinTwoUlpAndExactForLargeArguments) {
  const Row row = [](const Kernels& k, const float* x, std::int64_t n, float* y) { k.softplus(x, n, y); };
  const auto exact = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); };
  for (const float sign : {1.0f, -1.0f}) {
    EXPECT_LE(worst("softplus", row, exact, sign * 1e-30f, sign * 1.0f).ulps, 2.0);
    EXPECT_LE(worst("softplus", row, exact, sign * 1.0f, sign * 80.0f).ulps, 2.0);
  }
  for (const float large : {30.0f, 1e10f, 3e38f, kInfinity}) EXPECT_EQ(at(row, large), large);
  EXPECT_EQ(at(row, -kInfinity), 0.0f);
  EXPECT_EQ(at(row, -3e38f), 0.0f);
  EXPECT_GT(at(row, -100.0f), 0.0f);
  EXPECT_TRUE(std::isnan(at(row, std::nanf(""))));
}

TEST(KernelMath, SlopesAreTheActivationsDerivatives) {
  const double pi = std::acos(-1.0);
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto silu = [&](double x) { return sigmoid(x) * (1 + x * sigmoid(-x)); };
  const auto gelu_tanh = [&](double x) {
    const double c = 2 * std::sqrt(2 / pi), u = c * (x + 0.044715 * x * x * x);
    return sigmoid(u) * (1 + x * c * (1 + 3 * 0.044715 * x * x) * sigmoid(-u));
  };
  const auto gelu_erf = [&](double x) {
    return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * pi);
  };
  const struct {
    const char* name;
    Activation act;
    std::function<double(double)> exact;
  } cases[] = {{"silu", Activation::silu, silu},
               {"gelu_tanh", Activation::gelu_tanh, gelu_tanh},
               {"gelu_erf", Activation::gelu_erf, gelu_erf}};
  for (const auto& c : cases) {
    const Row row = [&](const Kernels& k, const float* x, std::int64_t n, float* y) { k.slope(c.act, x, n, y); };
    EXPECT_LE(worst(c.name, row, c.exact, 1e-9f, 30.0f).absolute, 4e-7) << c.name;
    EXPECT_LE(worst(c.name, row, c.exact, -1e-9f, -30.0f).absolute, 4e-7) << c.name;
    for (const float large : {200.0f, 1e19f, 3e38f, kInfinity}) {
      EXPECT_EQ(at(row, large), 1.0f) << c.name;
      EXPECT_EQ(at(row, -large), 0.0f) << c.name;
    }
    EXPECT_EQ(at(row, 0.0f), 0.5f) << c.name;
    EXPECT_TRUE(std::isnan(at(row, std::nanf("")))) << c.name;
  }
}

class MathKernels : public EachIsa {};

TEST_P(MathKernels, AgreeWithTheScalarTableOverTheWholeRange) {
  std::mt19937 random(1);
  std::vector<float> x(20'000);
  for (float& v : x) v = std::bit_cast<float>(static_cast<std::uint32_t>(random()));  // any float
  std::uniform_real_distribution<float> near(-12.0f, 12.0f);
  for (std::size_t i = 0; i < x.size(); i += 2) x[i] = near(random);
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<float> expected(x.size()), y(x.size()), expected_cos(x.size()), cos(x.size());
  for (const Row& row :
       {Row(exp_row), Row(tanh_row), activation_row(Activation::silu), activation_row(Activation::gelu_tanh),
        activation_row(Activation::gelu_erf),
        Row([](const Kernels&k, const float*v, std::int64_t count, float*to) { k.softplus(v, count, to); })}) {
    row(kernels_for(Isa::scalar), x.data(), n, expected.data());
    row(kernels(), x.data(), n, y.data());
    EXPECT_TRUE(same_bits(y, expected));
  }
  kernels_for(Isa::scalar).sin_cos(x.data(), n, expected.data(), expected_cos.data());
  kernels().sin_cos(x.data(), n, y.data(), cos.data());
  EXPECT_TRUE(same_bits(y, expected));
  EXPECT_TRUE(same_bits(cos, expected_cos));
}

INSTANTIATE_TEST_SUITE_P(Isa, MathKernels, testing::ValuesIn(available_isas()), isa_test_name);

}  // namespace
}  // namespace vitrine
