// How many rows a round has, and the numbers that a server reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/metrics.h"
#include "serve/round_budget.h"

namespace vitrine::test {
namespace {

TEST(RoundBudget, FollowsTheSpeedOfTheMachine) {
  RoundBudget budget(0.25);
  const auto settle = [&](double seconds_per_row) {
    for (int i = 0; i < 50; ++i) {
      const std::int64_t rows = budget.rows(1);
      budget.measure(rows, 0.01 + static_cast<double>(rows) * seconds_per_row);
    }
    return static_cast<double>(budget.rows(1));
  };
  EXPECT_NEAR(settle(1e-3), 240, 10);
  EXPECT_NEAR(settle(1e-2), 24, 2);
  EXPECT_NEAR(settle(1), 2, 1) << "one row of a prompt next to the token of a stream";
  EXPECT_NEAR(settle(1e-3), 240, 10);
  EXPECT_EQ(budget.rows(500), 501);
  EXPECT_GT(budget.rows(0), 500) << "nobody waits for a token";
}

TEST(RoundBudget, ModelsShareTheTimeOfARound) {
  RoundBudget budget(0.25);
  const RoundShare share{.n_models = 4, .others_decode = true};
  for (int i = 0; i < 50; ++i) {
    const std::int64_t rows = budget.rows(0, share);
    budget.measure(rows, 1e-3 * static_cast<double>(rows), share);
  }
  EXPECT_NEAR(static_cast<double>(budget.rows(0, share)), 62, 3);
  EXPECT_NEAR(static_cast<double>(budget.rows(1)), 250, 10);
  EXPECT_GT(budget.rows(0, {.n_models = 4}), 500) << "nobody waits for a token";
}

TEST(RoundBudget, SmallRoundsSayLittle) {
  RoundBudget budget(0.25);
  const std::int64_t before = budget.rows(1);
  budget.measure(2, 0.001);
  EXPECT_EQ(budget.rows(1), before);
}

TEST(Metrics, IsReadByPrometheus) {
  Metrics metrics;
  metrics.requests = 3;
  metrics.queue.observe(0.02);
  metrics.queue.observe(500);
  const Metrics other;
  const std::string text = metrics_text(std::vector<ModelMetrics>{{"m", &metrics, 2, 1}, {"a\"\\b", &other}});
  for (const char* line :
       {"# TYPE vitrine_requests_total counter\nvitrine_requests_total{model=\"m\"} "
        "3\nvitrine_requests_total{model=\"a\\\"\\\\b\"} 0\n",
        "vitrine_model_loads_total{model=\"m\"} 2\n", "vitrine_model_unloads_total{model=\"m\"} 1\n",
        "vitrine_queue_seconds_bucket{model=\"m\",le=\"0.01\"} 0\n",
        "vitrine_queue_seconds_bucket{model=\"m\",le=\"0.025\"} 1\n",
        "vitrine_queue_seconds_bucket{model=\"m\",le=\"120\"} 1\n",
        "vitrine_queue_seconds_bucket{model=\"m\",le=\"+Inf\"} 2\n", "vitrine_queue_seconds_count{model=\"m\"} 2\n",
        "vitrine_queue_seconds_sum{model=\"m\"} 500.02\n", "# TYPE vitrine_kv_used_bytes gauge\n"}) {
    EXPECT_THAT(text, testing::HasSubstr(line));
  }
}

}  // namespace
}  // namespace vitrine::test
