// The steps of optimizers: their definitions in kernels.h, every length and misalignment, and no access outside the
// arrays.
#include <functional>

#include "kernels/kernel_testing.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMaxLength = 35;
constexpr AdamwStep kAdamw = {0.7f, 0.99f, 0.013f, 0.1f, 0.95f, 0.05f, 0.31f, 1e-8f};
constexpr SgdStep kSgd = {0.7f, 0.1f, 0.9f, 0.013f};

/// p, m and v (without v for SGD) in a row, after a step from numbers of that kind.
struct Elements {
  std::vector<float> g, p, m, v;

  Elements(std::int64_t n, Numbers kind)
      : g(numbers(n, kind, 1)), p(numbers(n, kind, 2)), m(numbers(n, kind, 3)), v(numbers(n, kind, 4)) {
    for (float& square : v) square = std::fabs(square);
  }
};

struct StepCase {
  const char* name;
  std::function<void(const Kernels& k, const float* g, std::int64_t n, float* p, float* m, float* v)> run;
  std::function<void(float g, float& p, float& m, float& v)> definition;
};

std::vector<StepCase> step_cases() {
  return {
      {"adamw",
       [](const Kernels& k, const float* g, std::int64_t n, float* p, float* m, float* v) {
         k.adamw(kAdamw, g, n, p, m, v);
       },
       [](float g, float& p, float& m, float& v) {
         const AdamwStep& s = kAdamw;
         const float scaled = s.grad_scale * g;
         m = std::fma(s.toward, scaled - m, m);
         v = std::fma(s.toward2 * scaled, scaled, s.beta2 * v);
         p = std::fma(-s.rate, m / (std::sqrt(v) / s.root_divisor + s.eps), s.keep * p);
       }},
      {"sgd",
       [](const Kernels& k, const float* g, std::int64_t n, float* p, float* m, float*) { k.sgd(kSgd, g, n, p, m); },
       [](float g, float& p, float& m, float&) {
         m = std::fma(kSgd.momentum, m, std::fma(kSgd.decay, p, kSgd.grad_scale * g));
         p = std::fma(-kSgd.rate, m, p);
       }},
  };
}

class OptimizerKernels : public EachIsa {};

TEST_P(OptimizerKernels, MatchTheirDefinitionAtEveryLengthAndPlace) {
  for (const StepCase& c : step_cases()) {
    for (const Numbers kind : {Numbers::ordinary, Numbers::tiny, Numbers::special}) {
      for (std::int64_t n = 0; n <= kMaxLength; ++n) {
        Elements expected(n, kind);
        for (std::size_t i = 0; i < expected.p.size(); ++i) {
          c.definition(expected.g[i], expected.p[i], expected.m[i], expected.v[i]);
        }
        for (std::size_t shift = 0; shift < 4; ++shift) {
          Elements got(n, kind);
          for (std::vector<float>* array : {&got.g, &got.p, &got.m, &got.v}) {
            array->insert(array->begin(), shift, 12345.0f);
          }
          c.run(kernels(), got.g.data() + shift, n, got.p.data() + shift, got.m.data() + shift, got.v.data() + shift);
          EXPECT_TRUE(same_bits(std::span(got.p).subspan(shift), expected.p)) << c.name << " n=" << n;
          EXPECT_TRUE(same_bits(std::span(got.m).subspan(shift), expected.m)) << c.name << " n=" << n;
          EXPECT_TRUE(same_bits(std::span(got.v).subspan(shift), expected.v)) << c.name << " n=" << n;
          for (std::size_t i = 0; i < shift; ++i) EXPECT_EQ(got.p[i] + got.m[i] + got.v[i], 3 * 12345.0f);
        }
      }
    }
  }
}

TEST_P(OptimizerKernels, StayInsideTheirArrays) {
  for (const StepCase& c : step_cases()) {
    for (std::int64_t n = 0; n <= kMaxLength; ++n) {
      Elements expected(n, Numbers::ordinary);
      Guarded<float> g{std::span<const float>(expected.g)}, p{std::span<const float>(expected.p)};
      Guarded<float> m{std::span<const float>(expected.m)}, v{std::span<const float>(expected.v)};
      c.run(kernels(), g.data(), n, p.data(), m.data(), v.data());
      c.run(kernels_for(Isa::scalar), expected.g.data(), n, expected.p.data(), expected.m.data(), expected.v.data());
      EXPECT_TRUE(same_bits(p.values(), expected.p)) << c.name << " n=" << n;
      EXPECT_TRUE(same_bits(m.values(), expected.m)) << c.name << " n=" << n;
      EXPECT_TRUE(same_bits(v.values(), expected.v)) << c.name << " n=" << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, OptimizerKernels, testing::ValuesIn(available_isas()), isa_test_name);

}  // namespace
}  // namespace vitrine
