// The gates of states and the short convolution: values and gradients against the formula, by complex steps
// (support/op_check.h), and the convolution in pieces.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "ops/formulas.h"
#include "ops/short_convolution.h"
#include "ops/state_gates.h"

namespace vitrine::test {
namespace {

Complex softplus(const Complex& x) { return std::log(1.0 + std::exp(x)); }

Complex clamped(const StepLimits& limits, const Complex& x) {
  const auto least = static_cast<double>(limits.least), most = static_cast<double>(limits.most);
  return x.real() < least ? Complex(least) : x.real() > most ? Complex(most) : x;
}

TEST(StateGates, Steps) {
  for (const StepLimits limits : {StepLimits{}, StepLimits{0.25f, 1.5f}}) {
    const auto run = [&](bool has_bias) {
      return OpCase{{{7, 5}},
                    {},
                    has_bias ? Shape{5} : Shape{},
                    [limits](Pass& p, const Operands& o) { return state_steps(p, o.linear.bias, limits, o.x[0]); },
                    [limits](const All& x) {
                      Vector y;
                      for (std::size_t i = 0; i < x[0].size(); ++i) {
                        y.push_back(clamped(limits, softplus(x[0][i] + (x.size() > 1 ? x[1][i % 5] : Complex(0)))));
                      }
                      return y;
                    },
                    {},
                    3};
    };
    check_op(run(true));
    check_op(run(false));
  }
}

TEST(StateGates, LogDecays) {
  for (const bool is_log : {true, false}) {
    for (const std::int64_t n : {1, 4}) {
      check_op({n == 1 ? std::vector<Shape>{{6, 3}} : std::vector<Shape>{{6, 3, n}},
                {3},
                {},
                [is_log](Pass& p, const Operands& o) {
                  return log_decays(p, {o.linear.weight, is_log}, o.x[0]);
                },
                [is_log, n](const All& x) {
                  Vector y;
                  for (std::size_t i = 0; i < x[0].size(); ++i) {
                    const Complex& stored = x[1][i / static_cast<std::size_t>(n) % 3];
                    y.push_back((is_log ? -std::exp(stored) : stored) * x[0][i]);
                  }
                  return y;
                }});
    }
  }
}

TEST(StateGates, ScaledValues) {
  for (const std::int64_t n : {1, 4}) {
    check_op({{{6, 3}, {6, 3, n}},
              {},
              {},
              [](Pass& p, const Operands& o) { return scale_values(p, o.x[0], o.x[1]); },
              [n](const All& x) {
                Vector y;
                for (std::size_t i = 0; i < x[1].size(); ++i) {
                  y.push_back(x[0][i / static_cast<std::size_t>(n)] * x[1][i]);
                }
                return y;
              }});
  }
}

TEST(StateGates, SkippedValues) {
  for (const std::int64_t n : {1, 4}) {
    check_op({{{6, 3, n}, {6, 3, n}},
              {3},
              {},
              [](Pass& p, const Operands& o) { return add_skipped(p, o.linear.weight, o.x[0], o.x[1]); },
              [n](const All& x) {
                Vector y;
                for (std::size_t i = 0; i < x[0].size(); ++i) {
                  y.push_back(x[0][i] * x[2][i / static_cast<std::size_t>(n) % 3] + x[1][i]);
                }
                return y;
              }});
  }
}

TEST(StateGates, UnitVectors) {
  constexpr std::size_t kSize = 7;
  check_op({{{5, 3, kSize}},
            {},
            {},
            [](Pass& p, const Operands& o) { return unit_vectors(p, 1e-2f, 0.5f, o.x[0]); },
            [](const All& x) {
              Vector y;
              for (std::size_t first = 0; first < x[0].size(); first += kSize) {
                Complex sum = static_cast<double>(1e-2f);
                for (std::size_t i = first; i < first + kSize; ++i) sum += x[0][i] * x[0][i];
                for (std::size_t i = first; i < first + kSize; ++i) y.push_back(0.5 * x[0][i] / std::sqrt(sum));
              }
              return y;
            }});
}

/// Weights of channels in two parts, and their gradients.
struct Convolution {
  static constexpr std::int64_t kChannels = 21;

  Convolution(std::int64_t n_weights, bool has_bias) : width(n_weights) {
    const Shape shapes[] = {{8, width}, {13, width}};
    for (std::size_t part = 0; part < 2; ++part) {
      const std::int64_t n = shapes[part][0];
      for (std::int64_t i = 0; i < n * (width + 1); ++i) {
        numbers[part].push_back(static_cast<float>(2 * uniform(3, part, static_cast<std::uint64_t>(i)) - 1));
      }
      const auto* const bytes = reinterpret_cast<const std::byte*>(numbers[part].data());
      parts[part].weight = {"w", "w", shapes[part], {bytes, DType::f32, n, width, width, 1}};
      if (has_bias) parts[part].bias = {"b", "b", {n}, {bytes + 4 * n * width, DType::f32, 1, n, n, 1}};
    }
    for (const ConvolutionParams& part : parts) {
      gradients.add(part.weight);
      if (has_bias) gradients.add(part.bias);
    }
  }

  /// Weight j of a channel; j = width: the bias.
  double weight(std::int64_t c, std::int64_t j) const {
    const std::size_t part = c < 8 ? 0 : 1;
    const std::int64_t own = c < 8 ? c : c - 8, n = c < 8 ? 8 : 13;
    if (j == width && !parts[0].bias.present()) return 0;
    return static_cast<double>(numbers[part][static_cast<std::size_t>(j < width ? own * width + j : n * width + own)]);
  }
  float gradient(std::int64_t c, std::int64_t j) const {
    const ConvolutionParams& part = parts[c < 8 ? 0 : 1];
    const std::int64_t own = c < 8 ? c : c - 8;
    return j < width ? gradients.of(part.weight).data[own * width + j] : gradients.of(part.bias).data[own];
  }

  std::int64_t width;
  std::array<std::vector<float>, 2> numbers;
  std::array<ConvolutionParams, 2> parts;
  Gradients gradients;
};

std::vector<float> random_rows(std::int64_t n, std::uint64_t seed) {
  std::vector<float> x;
  for (std::int64_t i = 0; i < n * Convolution::kChannels; ++i) {
    x.push_back(static_cast<float>(2 * uniform(4, seed, static_cast<std::uint64_t>(i)) - 1));
  }
  return x;
}

std::vector<float> convolve(const Convolution& w, const std::vector<float>& x, std::int64_t piece, int threads,
                            const Kernels& kernels) {
  const auto n = static_cast<std::int64_t>(x.size()) / Convolution::kChannels;
  ThreadPool pool(threads);
  KvCache cache({std::vector<StateConfig>{window_config(Convolution::kChannels, w.width)}}, n, KvTypes());
  std::vector<float> result;
  const std::int64_t step = piece > 0 ? piece : n;
  for (std::int64_t first = 0; first < n; first += step) {
    Arena arena;
    const std::int64_t rows = std::min(step, n - first);
    Pass pass{{pool, kernels, arena}, {{0, rows, first, piece > 0 ? &cache : nullptr}}};
    const Tensor in = pass.tensor({rows, Convolution::kChannels});
    std::copy_n(x.begin() + first * Convolution::kChannels, in.count(), in.data);
    const Tensor y = short_convolution(pass, BlockSite{0}, w.parts, in, 0);
    result.insert(result.end(), y.data, y.data + y.count());
    if (piece == 0) break;
    cache.advance(rows);
    for (std::int64_t i = 0; i < w.width - 1; ++i) {  // the window has the last inputs
      const std::int64_t from = first + rows - w.width + 1 + i;
      for (std::int64_t c = 0; c < Convolution::kChannels; ++c) {
        const float expected = from < 0 ? 0.0f : x[static_cast<std::size_t>(from * Convolution::kChannels + c)];
        EXPECT_EQ(cache.state<float>(0, 0)[static_cast<std::size_t>(i * Convolution::kChannels + c)], expected);
      }
    }
  }
  return result;
}

TEST(ShortConvolution, EqualsTheFormulaInPiecesOfEverySize) {
  for (const std::int64_t width : {1, 2, 3, 5}) {
    for (const bool has_bias : {true, false}) {
      for (const std::int64_t n : {1, 3, 70}) {
        SCOPED_TRACE(std::to_string(width) + " " + std::to_string(n));
        const Convolution w(width, has_bias);
        const std::vector<float> x = random_rows(n, 1), whole = convolve(w, x, 0, 1, default_kernels());
        for (std::int64_t t = 0; t < n; ++t) {
          for (std::int64_t c = 0; c < Convolution::kChannels; ++c) {
            double sum = w.weight(c, width);
            for (std::int64_t j = std::max<std::int64_t>(0, width - 1 - t); j < width; ++j) {
              const auto at = static_cast<std::size_t>((t - width + 1 + j) * Convolution::kChannels + c);
              sum += w.weight(c, j) * static_cast<double>(x[at]);
            }
            ASSERT_NEAR(static_cast<double>(whole[static_cast<std::size_t>(t * Convolution::kChannels + c)]), sum,
                        1e-6);
          }
        }
        for (const std::int64_t piece : {1, 2, 7, 64, 65}) {
          EXPECT_TRUE(same_bits(convolve(w, x, piece, 2, default_kernels()), whole)) << piece;
        }
        for (const Isa isa : available_isas()) {
          EXPECT_TRUE(same_bits(convolve(w, x, 0, 3, kernels_for(isa)), whole)) << name_of(isa);
        }
      }
    }
  }
}

/// The convolution is linear in its inputs and in its weights, so its derivatives are sums of the other ones.
TEST(ShortConvolution, Gradients) {
  constexpr std::int64_t kRows = 9, kFirst = 6, kChannels = Convolution::kChannels;  // two segments
  for (const std::int64_t width : {1, 2, 4}) {
    Convolution w(width, true);
    const std::vector<float> x = random_rows(kRows, 1), dy = random_rows(kRows, 2);
    ThreadPool pool(2);
    Arena arena;
    Tape tape(w.gradients);
    Pass pass{{pool, default_kernels(), arena}, {{0, kFirst, 0, nullptr}, {kFirst, kRows - kFirst, 0, nullptr}}};
    pass.training.tape = &tape;
    const Tensor in = pass.tensor({kRows, kChannels});
    std::copy(x.begin(), x.end(), in.data);
    std::vector<float> dx;
    tape.record("input", {}, in, [] {});
    tape.watch(in, [&](const Tensor& g) { dx.assign(g.data, g.data + g.count()); });
    const Tensor y = short_convolution(pass, BlockSite{0}, w.parts, in, 0);
    std::copy(dy.begin(), dy.end(), tape.grad(y).data);
    tape.unwind();
    const auto at = [](const std::vector<float>& values, std::int64_t t, std::int64_t c) {
      return static_cast<double>(values[static_cast<std::size_t>(t * kChannels + c)]);
    };
    for (std::int64_t c = 0; c < kChannels; ++c) {
      std::vector<double> expected(kRows), dw(static_cast<std::size_t>(width) + 1);
      for (std::int64_t t = 0; t < kRows; ++t) {
        const std::int64_t begin = t < kFirst ? 0 : kFirst;
        dw[static_cast<std::size_t>(width)] += at(dy, t, c);
        for (std::int64_t j = 0; j < width; ++j) {
          const std::int64_t from = t - width + 1 + j;
          if (from < begin) continue;
          expected[static_cast<std::size_t>(from)] += w.weight(c, j) * at(dy, t, c);
          dw[static_cast<std::size_t>(j)] += at(x, from, c) * at(dy, t, c);
        }
      }
      for (std::int64_t t = 0; t < kRows; ++t) EXPECT_NEAR(at(dx, t, c), expected[static_cast<std::size_t>(t)], 2e-6);
      for (std::int64_t j = 0; j <= width; ++j) {
        EXPECT_NEAR(static_cast<double>(w.gradient(c, j)), dw[static_cast<std::size_t>(j)], 4e-6) << j;
      }
    }
  }
}

}  // namespace
}  // namespace vitrine::test
