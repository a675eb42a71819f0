// The linear map split by head, and copies for each head: values and gradients by complex steps (support/op_check.h).
#include "ops/by_head.h"

#include <gtest/gtest.h>

#include "support/op_check.h"

namespace vitrine::test {
namespace {

using Vector = std::vector<reference::Complex>;
using All = std::vector<Vector>;

constexpr std::size_t kHeads = 4, kIn = 12, kOut = 5;

TEST(ByHead, InAndOut) {
  const auto in = [](const All& x) {  // x [T, n, in], w [n·m, in]
    Vector y(x[0].size() / kIn * kOut);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t vector = i / kOut, row = vector % kHeads * kOut + i % kOut;
      for (std::size_t k = 0; k < kIn; ++k) y[i] += x[0][vector * kIn + k] * x[1][row * kIn + k];
    }
    return y;
  };
  const auto out = [](const All& x) {  // x [T, n, m], w [out, n·m]
    Vector y(x[0].size() / kIn * kOut);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t vector = i / kOut, head = vector % kHeads, row = i % kOut;
      for (std::size_t k = 0; k < kIn; ++k) {
        y[i] += x[0][vector * kIn + k] * x[1][(row * kHeads + head) * kIn + k];
      }
    }
    return y;
  };
  const auto run_in = [](Pass& p, const Operands& o) { return heads_in(p, o.linear, o.x[0]); };
  const auto run_out = [](Pass& p, const Operands& o) { return heads_out(p, o.linear, o.x[0]); };
  for (const std::int64_t rows : {1, 7, 40}) {
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(std::to_string(rows) + (transposed ? " transposed" : ""));
      const Shape x{rows, kHeads, kIn};
      check_op({.inputs = {x}, .weight = {kHeads * kOut, kIn}, .run = run_in, .formula = in, .transposed = transposed});
      check_op(
          {.inputs = {x}, .weight = {kOut, kHeads * kIn}, .run = run_out, .formula = out, .transposed = transposed});
    }
  }
}

TEST(ByHead, Copies) {
  check_op({.inputs = {{5, 13}},
            .run = [](Pass& p, const Operands& o) { return repeat(p, o.x[0], 3); },
            .formula =
                [](const All& x) {
                  Vector y;
                  for (std::size_t i = 0; i < 5 * 3 * 13; ++i) y.push_back(x[0][i / 39 * 13 + i % 13]);
                  return y;
                }});
  check_op({.inputs = {{5, 6, 13}},
            .run = [](Pass& p, const Operands& o) { return first_of_groups(p, o.x[0], 2); },
            .formula =
                [](const All& x) {
                  Vector y;
                  for (std::size_t i = 0; i < 5 * 2 * 13; ++i) y.push_back(x[0][i / 13 * 3 * 13 + i % 13]);
                  return y;
                }});
}

}  // namespace
}  // namespace vitrine::test
