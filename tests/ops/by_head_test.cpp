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

/// Rows of the weight that belong to a head, and others between them.
TEST(ByHead, SomeRows) {
  constexpr std::size_t kStep = 9, kFirst = 2, kCount = 5, kRank = 6;
  for (const bool is_transposed : {false, true}) {
    const std::size_t n_x = is_transposed ? kCount + 3 : kRank, n_y = is_transposed ? kRank : kCount;
    const auto formula = [=](const All& x) {
      Vector y(x[0].size() / n_x * n_y);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t vector = i / n_y, first = vector % kHeads * kStep + kFirst;
        for (std::size_t k = 0; k < (is_transposed ? kCount : kRank); ++k) {
          const std::size_t row = first + (is_transposed ? k : i % n_y), column = is_transposed ? i % n_y : k;
          y[i] += x[0][vector * n_x + k] * x[1][row * kRank + column];
        }
      }
      return y;
    };
    const auto run = [=](Pass& p, const Operands& o) {
      return heads_rows(p, o.linear.weight, {kStep, kFirst, kCount, is_transposed}, o.x[0]);
    };
    for (const std::int64_t rows : {1, 7, 40}) {
      SCOPED_TRACE(std::to_string(rows) + (is_transposed ? " transposed" : ""));
      check_op({.inputs = {{rows, kHeads, static_cast<std::int64_t>(n_x)}},
                .weight = {kHeads * kStep, kRank},
                .run = run,
                .formula = formula});
    }
  }
}

TEST(ByHead, Parts) {
  for (const bool takes_turns : {false, true}) {
    check_op({.inputs = {{5, 3, 13}},
              .run = [=](Pass& p, const Operands& o) { return part_of_heads(p, o.x[0], 4, 6, takes_turns); },
              .formula =
                  [=](const All& x) {
                    constexpr std::size_t kOrder[] = {0, 2, 4, 1, 3, 5};
                    Vector y;
                    for (std::size_t i = 0; i < 5 * 3 * 6; ++i) {
                      y.push_back(x[0][i / 6 * 13 + 4 + (takes_turns ? kOrder[i % 6] : i % 6)]);
                    }
                    return y;
                  }});
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
