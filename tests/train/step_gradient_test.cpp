// The gradients of the steps that make vectors of texts, against their formulas by complex steps (support/op_check.h).
#include <gtest/gtest.h>

#include "model/text_steps.h"
#include "support/op_check.h"

namespace vitrine::test {
namespace {

using Vector = std::vector<reference::Complex>;
using Mode = PoolStep::Mode;

constexpr std::size_t kWidth = 5;

/// One mode of rows [first, end).
Vector pooled(Mode mode, const Vector& x, std::size_t first, std::size_t end) {
  Vector y;
  for (std::size_t j = 0; j < kWidth; ++j) {
    reference::Complex sum = 0;
    double total = 0;
    std::size_t best = first;
    for (std::size_t t = first; t < end; ++t) {
      const double weight = mode == Mode::weighted_mean ? static_cast<double>(t - first + 1) : 1;
      sum += weight * x[t * kWidth + j];
      total += weight;
      if (x[t * kWidth + j].real() > x[best * kWidth + j].real()) best = t;
    }
    if (mode == Mode::cls) best = first;
    if (mode == Mode::last) best = end - 1;
    const bool chooses = mode == Mode::cls || mode == Mode::last || mode == Mode::max;
    y.push_back(chooses ? x[best * kWidth + j] : sum / (mode == Mode::mean_sqrt_len ? std::sqrt(total) : total));
  }
  return y;
}

TEST(StepGradients, PoolingsAndLengths) {
  const std::vector<Mode> modes = {Mode::max,           Mode::weighted_mean, Mode::cls,
                                   Mode::mean_sqrt_len, Mode::last,          Mode::mean};
  for (const bool normalizes : {false, true}) {
    std::vector<TextStep> steps = {PoolStep{modes}};
    if (normalizes) steps.emplace_back(NormalizeStep{});
    check_op({.inputs = {{9, static_cast<std::int64_t>(kWidth)}},
              .run =
                  [&](Pass& p, const Operands& o) {
                    TextValues values{o.x[0]};
                    run_text_steps(p, steps, {p.segments, {}}, values);
                    return values.vector;
                  },
              .formula =
                  [&](const std::vector<Vector>& x) {
                    Vector all;
                    for (const auto& [first, end] : {std::pair<std::size_t, std::size_t>(0, 4), {4, 5}, {5, 9}}) {
                      Vector text;
                      for (const Mode mode : modes) {
                        const Vector own = pooled(mode, x[0], first, end);
                        text.insert(text.end(), own.begin(), own.end());
                      }
                      reference::Complex squares = 0;
                      for (const reference::Complex& y : text) squares += y * y;
                      for (reference::Complex& y : text) y /= normalizes ? std::sqrt(squares) : 1.0;
                      all.insert(all.end(), text.begin(), text.end());
                    }
                    return all;
                  },
              .lengths = {4, 1, 4}});
  }
}

}  // namespace
}  // namespace vitrine::test
