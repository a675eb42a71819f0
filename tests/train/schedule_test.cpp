#include "train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace vitrine::test {
namespace {

using Kind = ScheduleConfig::Kind;

TEST(Schedule, WarmupBeginsAboveZero) {
  const ScheduleConfig s = {Kind::constant, 0.5, 4, 100, 0, 0.1};
  const double expected[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.5};
  for (int step = 0; step < 6; ++step) EXPECT_DOUBLE_EQ(learning_rate(s, step), expected[step]);
  EXPECT_EQ(learning_rate(s, 1'000'000), 0.5);
}

TEST(Schedule, CosineFromPeakToAFractionOfIt) {
  const ScheduleConfig s = {Kind::cosine, 1e-3, 100, 2100, 0, 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 1e-3 / 101);
  EXPECT_DOUBLE_EQ(learning_rate(s, 100), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(s, 600), 1e-4 + 9e-4 * (1 + std::sqrt(0.5)) / 2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1100), 5.5e-4);
  EXPECT_DOUBLE_EQ(learning_rate(s, 2100), 1e-4);
  EXPECT_DOUBLE_EQ(learning_rate(s, 9000), 1e-4);
}

TEST(Schedule, LinearFromPeakToAFractionOfIt) {
  const ScheduleConfig s = {Kind::linear, 8, 0, 8, 0, 0.5};
  for (int step = 0; step <= 8; ++step) EXPECT_DOUBLE_EQ(learning_rate(s, step), 8 - 0.5 * step);
  EXPECT_DOUBLE_EQ(learning_rate(s, 9), 4);
}

TEST(Schedule, StableThenDecay) {
  const ScheduleConfig s = {Kind::stable_decay, 1, 1, 10, 4, 0};
  const double expected[] = {0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0, 0};
  for (int step = 0; step < 12; ++step) EXPECT_DOUBLE_EQ(learning_rate(s, step), expected[step]) << step;
}

TEST(Schedule, RefusesContradictions) {
  EXPECT_NO_THROW(validate({Kind::cosine, 1, 9, 10, 0, 0}));
  EXPECT_NO_THROW(validate({Kind::constant, 1, 10, 10, 0, 0}));
  EXPECT_THROW(validate({Kind::cosine, 1, 10, 10, 0, 0}), BadInput);
  EXPECT_THROW(validate({Kind::cosine, -1, 0, 10, 0, 0}), BadInput);
  EXPECT_THROW(validate({Kind::cosine, 1, 0, 10, 0, 1.5}), BadInput);
  EXPECT_THROW(validate({Kind::linear, 1, 0, 0, 0, 0}), BadInput);
  EXPECT_THROW(validate({Kind::stable_decay, 1, 2, 10, 9, 0}), BadInput);
  EXPECT_THROW(validate({Kind::stable_decay, 1, 2, 10, 0, 0}), BadInput);
}

}  // namespace
}  // namespace vitrine::test
