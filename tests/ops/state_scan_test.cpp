// The scan of a state: values against the formula in double precision, bits in pieces, on threads and instruction sets,
// gradients by complex steps (support/op_check.h).
#include <gtest/gtest.h>

#include "ops/state_testing.h"

namespace vitrine::test {
namespace {

TEST(StateScan, EqualsTheFormulaOnEveryInstructionSet) {
  for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{1}, {2, 1}, {150, 5}}) {
    for (const StateCase& c : state_cases(lengths, 7, 37)) {
      SCOPED_TRACE(c.name + " " + std::to_string(lengths[0]));
      const StateData data(c);
      const std::vector<float> ours = run_scan(c, data).out;
      expect_close(ours, state_scan_formula<double>(c, data.exact()), 2e-6);
      for (const Isa isa : available_isas()) {
        for (const int threads : {1, 3}) {
          const StateResult other = run_scan(c, data, {&kernels_for(isa), threads});
          EXPECT_TRUE(same_bits(other.out, ours)) << name_of(isa);
        }
      }
    }
  }
}

TEST(StateScan, HasTheSameBitsInPieces) {
  for (const StateCase& c : state_cases({150}, 5, 19)) {
    SCOPED_TRACE(c.name);
    const StateData data(c);
    const std::vector<float> whole = run_scan(c, data).out;
    const StateResult at_once = run_scan(c, data, {.piece = 150});
    EXPECT_TRUE(same_bits(at_once.out, whole));
    for (const std::int64_t piece : {1, 2, 7, 64, 65}) {
      const StateResult pieces = run_scan(c, data, {.piece = piece});
      EXPECT_TRUE(same_bits(pieces.out, whole)) << piece;
      EXPECT_TRUE(same_bits(pieces.state, at_once.state)) << piece;
    }
  }
}

TEST(StateScanGradients, MatchTheFormula) {
  for (const StateCase& c : state_cases({2, 66}, 3, 2)) {
    SCOPED_TRACE(c.name);
    check_op(state_op(c), 2e-5);
  }
}

/// More lanes than a block has.
TEST(StateScanGradients, OfManyLanes) {
  for (const StateCase& c : state_cases({3}, 3, 18)) {
    SCOPED_TRACE(c.name);
    check_op(state_op(c), 2e-5);
  }
}

TEST(StateScanGradients, DoNotDependOnThreads) {
  for (const StateCase& c : state_cases({70, 9}, 7, 35)) {
    SCOPED_TRACE(c.name);
    const OpRun one = run_op(state_op(c), 1), three = run_op(state_op(c), 3);
    for (std::size_t i = 0; i < one.gradients.size(); ++i) {
      EXPECT_TRUE(same_bits(one.gradients[i], three.gradients[i])) << i;
    }
  }
}

TEST(StateScan, IntervalsOfStatesFitTheScratch) {
  EXPECT_EQ(state_interval(128), 64);
  for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{200}, kMaxStateRows}) {
    const std::int64_t interval = state_interval(rows);
    EXPECT_GE(interval, 1);
    EXPECT_LE(StateKernels::backward_floats(interval, rows) + rows * StateKernels::kBackwardLanes, kScratchFloats);
  }
}

}  // namespace
}  // namespace vitrine::test
