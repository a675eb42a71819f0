// Kernels over one row: their definitions in kernels.h, every length and misalignment, and no access outside the
// arrays.
#include <algorithm>
#include <functional>

#include "kernels/kernel_testing.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMaxLength = 35;
constexpr float kUntouched = 12345.0f;

/// The operands of a kernel: n floats each in a, b and c; y holds 2n + 1.
struct Arrays {
  const float *a, *b, *c;
  std::int64_t n;
  float* y;
};

/// One kernel, its numbers filled in; `definition` is the comment of kernels.h written out, empty for approximations
/// (math_test.cpp measures those). `outputs` are the elements of y that it sets.
struct RowCase {
  std::string name;
  std::function<void(const Kernels&, const Arrays&)> run;
  std::function<void(const Arrays&)> definition;
  std::function<std::int64_t(std::int64_t n)> outputs = [](std::int64_t n) { return n; };
  bool in_place = true;
};

float lane_sum(std::int64_t n, const std::function<float(std::int64_t i, float so_far)>& add) {
  float lane[16] = {};
  for (std::int64_t i = 0; i < (n + 15) / 16 * 16; ++i)
    lane[i % 16] = i < n ? add(i, lane[i % 16]) : lane[i % 16] + 0.0f;
  return sum_of_lanes(lane);
}

std::int64_t one_output(std::int64_t) { return 1; }
std::int64_t all_outputs(std::int64_t n) { return n; }

std::vector<RowCase> reductions() {
  return {
      {"sum", [](const Kernels& k, const Arrays& r) { r.y[0] = k.sum(r.a, r.n); },
       [](const Arrays& r) { r.y[0] = lane_sum(r.n, [&](std::int64_t i, float sum) { return sum + r.a[i]; }); },
       one_output, false},
      {"sum_squares", [](const Kernels& k, const Arrays& r) { r.y[0] = k.sum_squares(r.a, r.n, 0.3f); },
       [](const Arrays& r) {
         r.y[0] = lane_sum(r.n, [&](std::int64_t i, float sum) {
           const float d = r.a[i] - 0.3f;
           return std::fma(d, d, sum);
         });
       },
       one_output, false},
      {"dot", [](const Kernels& k, const Arrays& r) { r.y[0] = k.dot(r.a, r.b, r.n); },
       [](const Arrays& r) {
         r.y[0] = lane_sum(r.n, [&](std::int64_t i, float sum) { return std::fma(r.a[i], r.b[i], sum); });
       },
       one_output, false},
      {"max", [](const Kernels& k, const Arrays& r) { r.y[0] = k.max(r.a, r.n); },
       [](const Arrays& r) {
         r.y[0] = -std::numeric_limits<float>::infinity();
         for (std::int64_t i = 0; i < r.n; ++i) {
           if (std::isnan(r.a[i]) || r.a[i] > r.y[0]) r.y[0] = r.a[i];
           if (std::isnan(r.y[0])) return;
         }
       },
       one_output, false},
      {"all_finite", [](const Kernels& k, const Arrays& r) { r.y[0] = k.all_finite(r.a, r.n) ? 1.0f : 0.0f; },
       [](const Arrays& r) {
         r.y[0] = std::all_of(r.a, r.a + r.n, [](float x) { return std::isfinite(x); }) ? 1.0f : 0.0f;
       },
       one_output, false},
      {"exp_sum", [](const Kernels& k, const Arrays& r) { r.y[r.n] = k.exp_sum(r.a, r.n, 1.5f, r.y); }, nullptr,
       [](std::int64_t n) { return n + 1; }},
  };
}

std::vector<RowCase> arithmetic() {
  const auto each = [](std::function<float(float a, float b, float c)> f) {
    return [f](const Arrays& r) {
      for (std::int64_t i = 0; i < r.n; ++i) r.y[i] = f(r.a[i], r.b[i], r.c[i]);
    };
  };
  return {
      {"add", [](const Kernels& k, const Arrays& r) { k.add(r.a, r.b, r.n, r.y); },
       each([](float a, float b, float) { return a + b; })},
      {"multiply", [](const Kernels& k, const Arrays& r) { k.multiply(r.a, r.b, r.n, r.y); },
       each([](float a, float b, float) { return a * b; })},
      {"scale", [](const Kernels& k, const Arrays& r) { k.scale(r.a, r.n, 1.7f, r.y); },
       each([](float a, float, float) { return 1.7f * a; })},
      {"normalize", [](const Kernels& k, const Arrays& r) { k.normalize(r.a, r.n, 0.4f, 2.3f, r.y); },
       each([](float a, float, float) { return (a - 0.4f) / 2.3f; })},
      {"affine", [](const Kernels& k, const Arrays& r) { k.affine(r.a, r.b, 1.0f, nullptr, r.n, r.y); },
       each([](float a, float b, float) { return a * (1.0f + b); })},
      {"affine_bias", [](const Kernels& k, const Arrays& r) { k.affine(r.a, r.b, 1.0f, r.c, r.n, r.y); },
       each([](float a, float b, float c) { return std::fma(a, 1.0f + b, c); })},
      {"relu", [](const Kernels& k, const Arrays& r) { k.activate(Activation::relu, r.a, r.n, r.y); },
       each([](float a, float, float) { return a < 0.0f ? 0.0f : a; })},
      {"relu_slope", [](const Kernels& k, const Arrays& r) { k.slope(Activation::relu, r.a, r.n, r.y); },
       each([](float a, float, float) { return a > 0.0f ? 1.0f : 0.0f; })},
      {"relu_squared", [](const Kernels& k, const Arrays& r) { k.activate(Activation::relu_squared, r.a, r.n, r.y); },
       each([](float a, float, float) { return a < 0.0f ? 0.0f : a * a; })},
      {"relu_squared_slope",
       [](const Kernels& k, const Arrays& r) { k.slope(Activation::relu_squared, r.a, r.n, r.y); },
       each([](float a, float, float) { return a < 0.0f ? 0.0f : a + a; })},
      {"sigmoid", [](const Kernels& k, const Arrays& r) { k.sigmoid(r.a, r.n, r.y); }, each([](float a, float, float) {
         const float zero = 0.0f;
         float e = 0;
         kernels_for(Isa::scalar).exp_sum(&zero, 1, std::fabs(a), &e);
         return a < 0.0f ? e / (1.0f + e) : 1.0f / (1.0f + e);
       })},
      {"multiply_add",
       [](const Kernels& k, const Arrays& r) {
         std::copy_n(r.c, r.n, r.y);
         k.multiply_add(r.a, r.b, r.n, r.y);
       },
       each([](float a, float b, float c) { return std::fma(a, b, c); }), all_outputs, false},
      {"add_scaled",
       [](const Kernels& k, const Arrays& r) {
         std::copy_n(r.c, r.n, r.y);
         k.add_scaled(r.a, r.n, 1.7f, r.y);
       },
       each([](float a, float, float c) { return std::fma(1.7f, a, c); }), all_outputs, false},
  };
}

std::vector<RowCase> approximations() {
  std::vector<RowCase> cases = {
      {"softcap", [](const Kernels& k, const Arrays& r) { k.softcap(r.a, r.n, 2.5f, r.y); }, nullptr},
      {"bend", [](const Kernels& k, const Arrays& r) { k.bend(r.a, r.n, -1e-3f, r.y); }, nullptr},
      {"bend_slope", [](const Kernels& k, const Arrays& r) { k.bend_slope(r.a, r.n, -1e-3f, r.y); }, nullptr},
      {"sin_cos", [](const Kernels& k, const Arrays& r) { k.sin_cos(r.a, r.n, r.y, r.y + r.n); }, nullptr,
       [](std::int64_t n) { return 2 * n; }},
  };
  for (const Activation act : {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf, Activation::tanh}) {
    cases.push_back({"activation" + std::to_string(static_cast<int>(act)),
                     [act](const Kernels& k, const Arrays& r) { k.activate(act, r.a, r.n, r.y); }, nullptr});
    cases.push_back({"slope" + std::to_string(static_cast<int>(act)),
                     [act](const Kernels& k, const Arrays& r) { k.slope(act, r.a, r.n, r.y); }, nullptr});
  }
  return cases;
}

std::vector<RowCase> rotations() {
  const auto even = [](std::int64_t n) { return n / 2 * 2; };
  const auto rotated = [](const Arrays& r, std::int64_t i, std::int64_t first, std::int64_t second) {
    r.y[first] = r.a[first] * r.b[i] - r.a[second] * r.c[i];
    r.y[second] = r.a[second] * r.b[i] + r.a[first] * r.c[i];
  };
  return {
      {"rotate_halves", [](const Kernels& k, const Arrays& r) { k.rotate_halves(r.a, r.b, r.c, r.n / 2, r.y); },
       [rotated](const Arrays& r) {
         for (std::int64_t i = 0; i < r.n / 2; ++i) rotated(r, i, i, i + r.n / 2);
       },
       even},
      {"rotate_interleaved",
       [](const Kernels& k, const Arrays& r) { k.rotate_interleaved(r.a, r.b, r.c, r.n / 2, r.y); },
       [rotated](const Arrays& r) {
         for (std::int64_t i = 0; i < r.n / 2; ++i) rotated(r, i, 2 * i, 2 * i + 1);
       },
       even},
  };
}

std::vector<RowCase> row_cases() {
  std::vector<RowCase> all;
  for (const auto& some : {reductions(), arithmetic(), approximations(), rotations()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

/// y after `run`, on inputs and an output that begin `shift` floats into their memory.
template <class Run>
std::vector<float> output_of(const Run& run, Numbers kind, std::int64_t n, std::int64_t shift) {
  std::vector<float> in[3];
  for (std::uint32_t i = 0; i < 3; ++i) {
    in[i] = numbers(n, kind, 7 * static_cast<std::uint32_t>(n) + i);
    in[i].insert(in[i].begin(), static_cast<std::size_t>(shift), kUntouched);
  }
  std::vector<float> y(static_cast<std::size_t>(2 * n + 2 + shift), kUntouched);
  run(Arrays{in[0].data() + shift, in[1].data() + shift, in[2].data() + shift, n, y.data() + shift});
  EXPECT_EQ(std::count(y.begin(), y.begin() + shift, kUntouched), shift);
  return {y.begin() + shift, y.end()};
}

class RowKernels : public EachIsa {};

TEST_P(RowKernels, MatchTheScalarTableBitForBit) {
  for (const RowCase& c : row_cases()) {
    const auto run = [&](const Arrays& r) { c.run(kernels(), r); };
    const auto scalar = [&](const Arrays& r) { c.run(kernels_for(Isa::scalar), r); };
    for (const Numbers kind : {Numbers::ordinary, Numbers::tiny, Numbers::special}) {
      for (std::int64_t n = 0; n <= kMaxLength; ++n) {
        const std::vector<float> expected = output_of(scalar, kind, n, 0);
        for (std::int64_t shift = 0; shift < 4; ++shift) {
          EXPECT_TRUE(same_bits(output_of(run, kind, n, shift), expected))
              << c.name << " n=" << n << " shift=" << shift;
        }
      }
    }
  }
}

TEST_P(RowKernels, MatchTheirDefinitionAndWriteNothingElse) {
  for (const RowCase& c : row_cases()) {
    const auto run = [&](const Arrays& r) { c.run(kernels(), r); };
    for (const Numbers kind : {Numbers::ordinary, Numbers::tiny, Numbers::special}) {
      for (std::int64_t n : {0, 1, 2, 5, 15, 16, 17, 31, 32, 33, 34, 35, 300}) {
        const std::vector<float> y = output_of(run, kind, n, 0);
        EXPECT_EQ(std::count(y.begin() + c.outputs(n), y.end(), kUntouched), 2 * n + 2 - c.outputs(n)) << c.name;
        if (c.definition == nullptr) continue;
        EXPECT_TRUE(same_bits(y, output_of(c.definition, kind, n, 0))) << c.name << " n=" << n;
      }
    }
  }
}

TEST_P(RowKernels, StayInsideTheirArraysAndWorkInPlace) {
  for (const RowCase& c : row_cases()) {
    const auto run = [&](const Arrays& r) { c.run(kernels(), r); };
    for (std::int64_t n = 0; n <= kMaxLength; ++n) {
      const std::int64_t outputs = c.outputs(n);
      std::vector<float> expected = output_of(run, Numbers::ordinary, n, 0);
      expected.resize(static_cast<std::size_t>(outputs));
      // Rotations read half as many of b and c.
      const std::int64_t others = c.name.starts_with("rotate") ? n / 2 : n;
      const auto seed = 7 * static_cast<std::uint32_t>(n);
      const std::vector<float> input = numbers(n, Numbers::ordinary, seed);
      const std::vector<float> second = numbers(n, Numbers::ordinary, seed + 1);
      const std::vector<float> third = numbers(n, Numbers::ordinary, seed + 2);
      Guarded<float> a{std::span(input).first(static_cast<std::size_t>(std::min(n, std::max(n / 2 * 2, others))))};
      Guarded<float> b{std::span(second).first(static_cast<std::size_t>(others))};
      Guarded<float> d{std::span(third).first(static_cast<std::size_t>(others))};
      Guarded<float> y{static_cast<std::size_t>(outputs)};
      c.run(kernels(), {a.data(), b.data(), d.data(), n, y.data()});
      EXPECT_TRUE(same_bits(y.values(), expected)) << c.name << " n=" << n;
      if (!c.in_place) continue;
      std::vector<float> both = input;
      both.resize(static_cast<std::size_t>(2 * n + 1));
      c.run(kernels(), {both.data(), b.data(), d.data(), n, both.data()});
      both.resize(static_cast<std::size_t>(outputs));
      EXPECT_TRUE(same_bits(both, expected)) << c.name << " in place, n=" << n;
    }
  }
}

TEST_P(RowKernels, TakeNullPointersWhenThereIsNothing) {
  for (const RowCase& c : row_cases()) {
    float y = kUntouched;
    c.run(kernels(), {nullptr, nullptr, nullptr, 0, c.outputs(0) == 0 ? nullptr : &y});
    if (c.name == "max") {
      EXPECT_EQ(y, -std::numeric_limits<float>::infinity());
    }
    if (c.name == "sum" || c.name == "sum_squares") {
      EXPECT_TRUE(same_bits(y, 0.0f));
    }
  }
  float sum = kernels().exp_sum(nullptr, 0, 1.0f, nullptr);
  EXPECT_TRUE(same_bits(sum, 0.0f));
}

TEST_P(RowKernels, ExpSumAddsWhatItWrites) {
  for (std::int64_t n : {1, 15, 16, 33, 300}) {
    const std::vector<float> x = numbers(n, Numbers::ordinary, 5);
    std::vector<float> y(x.size());
    const float sum = kernels().exp_sum(x.data(), n, 0.7f, y.data());
    EXPECT_TRUE(same_bits(
        sum, lane_sum(n, [&](std::int64_t i, float so_far) { return so_far + y[static_cast<std::size_t>(i)]; })));
  }
}

TEST_P(RowKernels, MaxSeesANanAndAllFiniteSeesEveryElement) {
  for (std::int64_t n = 1; n <= kMaxLength; ++n) {
    for (std::size_t bad = 0; bad < static_cast<std::size_t>(n); ++bad) {
      std::vector<float> x = numbers(n, Numbers::ordinary, 3);
      EXPECT_TRUE(kernels().all_finite(x.data(), n));
      x[bad] = std::nanf("");
      EXPECT_TRUE(std::isnan(kernels().max(x.data(), n))) << n << " " << bad;
      EXPECT_FALSE(kernels().all_finite(x.data(), n));
      x[bad] = -std::numeric_limits<float>::infinity();
      EXPECT_FALSE(kernels().all_finite(x.data(), n));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, RowKernels, testing::ValuesIn(available_isas()), isa_test_name);

}  // namespace
}  // namespace vitrine
