// The row of a table that a distance has.
#include "ops/position_scores.h"

#include <gtest/gtest.h>

namespace vitrine::test {
namespace {

/// Also where the largest distance is below the middle, so that logarithms fall, or next to it, so that one is 0.
TEST(PositionScores, EveryDistanceHasARowOfTheTable) {
  for (const std::int64_t span : {1, 2, 9, 32}) {
    for (std::int64_t most = 2; most < 40; ++most) {
      const DistanceTableConfig c{.span = span, .max_distance = most};
      for (std::int64_t distance = -200; distance <= 200; ++distance) {
        EXPECT_GE(row_of(c, distance), 0) << span << " " << most << " " << distance;
        EXPECT_LT(row_of(c, distance), 2 * span) << span << " " << most << " " << distance;
      }
    }
  }
}

/// transformers' make_log_bucket_position with bucket_size 32 and max_position 9, plus 32.
TEST(PositionScores, LogarithmsMayFall) {
  const DistanceTableConfig c{.span = 32, .max_distance = 9};
  EXPECT_EQ(row_of(c, 16), 48);
  EXPECT_EQ(row_of(c, 17), 47);
  EXPECT_EQ(row_of(c, 33), 33);
  EXPECT_EQ(row_of(c, 100), 9);
  EXPECT_EQ(row_of(c, -17), 17);
}

}  // namespace
}  // namespace vitrine::test
