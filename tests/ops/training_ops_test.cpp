// Ops of training: dropout and the losses of a router.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <span>

#include "autograd/tape.h"
#include "model/mixers/ffn/sites.h"
#include "ops/attend.h"
#include "ops/attention_sites.h"
#include "ops/dropout.h"
#include "ops/route.h"
#include "support/attend_own.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

class TrainingOps : public testing::Test {
 protected:
  Tensor random(const Shape& shape) {
    const Tensor x = arena_.tensor(shape);
    std::normal_distribution<float> normal;
    for (float& v : x.values()) v = normal(numbers_);
    return x;
  }
  Tensor known(const Shape& shape) {
    const Tensor x = random(shape);
    tape_.record("input", {}, x, [] {});
    return x;
  }
  Pass pass(std::vector<Segment> segments, ThreadPool& pool) {
    Pass p{{pool, default_kernels(), arena_}, std::move(segments), {}};
    p.training.tape = &tape_;
    return p;
  }

  std::mt19937 numbers_{7};
  ThreadPool one_{1}, three_{3};
  Arena arena_;
  Gradients gradients_;
  Tape tape_{gradients_};
};

TEST_F(TrainingOps, DropoutDependsOnlyOnThePlace) {
  Dropout dropout{0.25f, 5, 3, 1};
  std::vector<float> whole(1000), part(100);
  const SiteId at{AttentionSite::attn_out, 2};
  default_kernels().dropout_factors(dropout.mask(at), 0, 1000, whole.data());
  for (const std::int64_t first : {0, 1, 3, 333, 900}) {
    default_kernels().dropout_factors(dropout.mask(at), first, 100, part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first)) << first;
  }
  const auto zeros = std::count(whole.begin(), whole.end(), 0.0f);
  EXPECT_NEAR(static_cast<double>(zeros), 250, 50);
  for (const float f : whole) EXPECT_TRUE(f == 0.0f || f == 1.0f / 0.75f);

  const auto differs = [&](const Dropout& other, const SiteId& site) {
    std::vector<float> factors(1000);
    default_kernels().dropout_factors(other.mask(site), 0, 1000, factors.data());
    return factors != whole;
  };
  EXPECT_TRUE(differs({0.25f, 6, 3, 1}, at));
  EXPECT_TRUE(differs({0.25f, 5, 4, 1}, at));
  EXPECT_TRUE(differs({0.25f, 5, 3, 2}, at));
  EXPECT_TRUE(differs(dropout, {AttentionSite::attn_out, 3}));
  EXPECT_TRUE(differs(dropout, {FfnSite::mlp_out, 2}));
  EXPECT_TRUE(differs(dropout, {AttentionSite::attn_out, 2, 0}));
}

TEST_F(TrainingOps, DropoutMultipliesValuesAndGradientsByItsFactors) {
  const Tensor x = known({5, 33}), g = random({5, 33});
  Pass p = pass({{0, 5, 0, nullptr}}, three_);
  EXPECT_EQ(dropout(p, {FfnSite::mlp_out, 0}, x).data, x.data) << "no rate, no op";
  p.training.dropout = {0.5f, 1, 0, 0};
  const Tensor y = dropout(p, {FfnSite::mlp_out, 0}, x);
  std::vector<float> factors(static_cast<std::size_t>(x.count()));
  p.kernels.dropout_factors(p.training.dropout.mask({FfnSite::mlp_out, 0}), 0, x.count(), factors.data());
  std::copy_n(g.data, g.count(), tape_.grad(y).data);
  const Tensor dx = tape_.grad(x);
  tape_.watch(x, [&](const Tensor&) {});
  tape_.unwind(1);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const float factor = factors[static_cast<std::size_t>(i)];
    EXPECT_EQ(y.data[i], x.data[i] * factor);
    EXPECT_EQ(dx.data[i], g.data[i] * factor);
  }
}

/// Taps patterns, so that attention runs step by step.
struct PatternTaps : Taps {
  bool wants(const SiteId& id) const override { return id.site == AttentionSite::pattern; }
  Tensor visit(Pass&, const SiteId&, const Tensor& value) override { return value; }
};

TEST_F(TrainingOps, TapsDoNotChangeTheDropoutOfAttention) {
  const AttendConfig c{4, 2, 8, 0.5f, 3.0f};
  const Mask mask{Mask::Kind::causal, 5};
  const Tensor q = known({9, 4, 8}), k = known({9, 2, 8}), v = known({9, 2, 8}), g = random({9, 4, 8});
  const auto run = [&](Taps* taps, ThreadPool& pool) {
    Pass p = pass({{0, 6, 0, nullptr}, {6, 3, 0, nullptr}}, pool);
    p.taps = taps;
    p.training.dropout = {0.3f, 9, 2, 0};
    const std::size_t mark = tape_.mark();
    std::vector<std::vector<float>> results;
    const Tensor z = attend_own(p, {1}, c, mask, q, k, v);
    std::copy_n(g.data, g.count(), tape_.grad(z).data);
    for (const Tensor& x : {q, k, v}) std::fill_n(tape_.grad(x).data, x.count(), 0.0f);
    results.emplace_back(z.values().begin(), z.values().end());
    tape_.unwind(mark);
    for (const Tensor& x : {q, k, v})
      results.emplace_back(tape_.grad(x).values().begin(), tape_.grad(x).values().end());
    return results;
  };
  PatternTaps taps;
  const auto untapped = run(nullptr, three_), tapped = run(&taps, one_);
  EXPECT_EQ(untapped.front(), tapped.front()) << "the forward, bit for bit";
  for (std::size_t i = 1; i < untapped.size(); ++i) {
    for (std::size_t j = 0; j < untapped[i].size(); ++j) {
      EXPECT_NEAR(untapped[i][j], tapped[i][j], 1e-5) << i << " " << j;
    }
  }
  Pass without = pass({{0, 6, 0, nullptr}, {6, 3, 0, nullptr}}, one_);
  const Tensor z = attend_own(without, {1}, c, mask, q, k, v);
  EXPECT_FALSE(std::equal(z.values().begin(), z.values().end(), untapped.front().begin()));
}

/// A correction only chooses, and experts outside the best groups are not chosen. Of equal ones the first counts.
TEST(Routing, ChoosesByCorrectionAndGroups) {
  ThreadPool pool(1);
  Arena arena;
  Pass p{{pool, default_kernels(), arena}, {{0, 1, 0, nullptr}}, {}};
  const std::vector<float> values = {0.9f, 0.1f, 0.6f, 0.5f, 0.2f, 0.2f}, added = {-1, 0, 0, 0, 0, 0.5f};
  const Tensor scores = arena.tensor({1, 6});
  std::copy(values.begin(), values.end(), scores.data);
  Param correction;
  correction.shape = {6};
  correction.view = {std::as_bytes(std::span(added)).data(), DType::f32, 1, 6, 6, 1};
  const auto chosen = [&](const RouterConfig& c, const Param& with) {
    const Tensor found = choose_experts(p, c, scores, with, 2);
    return std::vector<float>(found.values().begin(), found.values().end());
  };
  RouterConfig c;
  EXPECT_EQ(chosen(c, {}), (std::vector<float>{0, 2}));
  EXPECT_EQ(chosen(c, correction), (std::vector<float>{5, 2}));
  c.groups = 3;
  EXPECT_EQ(chosen(c, {}), (std::vector<float>{0, 1})) << "the group with the largest score";
  EXPECT_EQ(chosen(c, correction), (std::vector<float>{5, 4}));
  c.group_rank = RouterConfig::GroupRank::two_largest;
  EXPECT_EQ(chosen(c, {}), (std::vector<float>{2, 3})) << "1.1 is more than 1.0";
  EXPECT_EQ(chosen(c, correction), (std::vector<float>{2, 3}));
  c.top_groups = 2;
  EXPECT_EQ(chosen(c, {}), (std::vector<float>{0, 2}));
  std::fill_n(scores.data, 6, 0.5f);
  EXPECT_EQ(chosen(c, {}), (std::vector<float>{0, 1}));
}

/// The losses and their gradients with respect to weights and logits, against the formulas in double precision.
TEST_F(TrainingOps, RouterLossesAndTheirGradients) {
  constexpr std::int64_t kRows = 7, kExperts = 5, kChosen = 2;
  const std::vector<Segment> segments = {{0, 4, 0, nullptr}, {4, 3, 0, nullptr}};
  for (const bool over_layers : {false, true}) {
    const Tensor logits = known({kRows, kExperts});
    Pass p = pass(segments, one_);
    const Tensor weights = softmax_rows(p, logits), chosen = choose_experts(p, {}, weights, {}, kChosen);
    LossRequest loss;
    LossResult found;
    loss.balance = 0.7f;
    loss.balance_over_layers = over_layers;
    loss.router_z = 0.3f;
    loss.router_scale = 0.5f;
    p.training.loss = &loss;
    p.training.result = &found;
    const Tensor dlogits = tape_.grad(logits), dweights = tape_.grad(weights);
    router_losses(p, logits, weights, chosen);
    std::vector<float> by_weights(static_cast<std::size_t>(kRows * kExperts));
    std::vector<float> by_logits = by_weights;
    tape_.unwind(tape_.mark() - (over_layers ? 3 : 4));  // the records of router_losses
    std::copy_n(dweights.data, dweights.count(), by_weights.begin());
    std::copy_n(dlogits.data, dlogits.count(), by_logits.begin());

    double balance = 0, z_sum = 0;
    std::vector<double> expected_weights(by_weights.size()), expected_logits(by_logits.size());
    const auto add_balance = [&](std::int64_t first, std::int64_t n, double share) {
      for (std::int64_t e = 0; e < kExperts; ++e) {
        double f = 0, mean = 0;
        for (std::int64_t t = first; t < first + n; ++t) {
          for (std::int64_t r = 0; r < kChosen; ++r) f += chosen.row(t)[r] == static_cast<float>(e) ? 1 : 0;
          mean += static_cast<double>(weights.row(t)[e]) / static_cast<double>(n);
        }
        f /= static_cast<double>(over_layers ? n : n * kChosen);
        balance += kExperts * f * mean;
        for (std::int64_t t = first; t < first + n; ++t) {
          expected_weights[static_cast<std::size_t>(t * kExperts + e)] =
              0.7 * share * kExperts * f / static_cast<double>(n);
        }
      }
    };
    if (over_layers) add_balance(0, kRows, 0.5 * 2);
    for (const Segment& s : segments) {
      if (!over_layers) add_balance(s.first_row, s.length, 0.5);
      for (std::int64_t t = s.first_row; t < s.first_row + s.length; ++t) {
        double sum = 0;
        for (std::int64_t e = 0; e < kExperts; ++e) sum += std::exp(static_cast<double>(logits.row(t)[e]));
        const double z = std::log(sum);
        z_sum += z * z / static_cast<double>(s.length);
        for (std::int64_t e = 0; e < kExperts; ++e) {
          expected_logits[static_cast<std::size_t>(t * kExperts + e)] =
              0.3 * 0.5 * 2 * z * std::exp(static_cast<double>(logits.row(t)[e])) / sum / static_cast<double>(s.length);
        }
      }
    }
    EXPECT_NEAR(over_layers ? found.balance_of_layers() : found.balance_sum, balance, 1e-5 * balance);
    EXPECT_NEAR(found.router_z_sum, z_sum, 1e-5 * z_sum);
    for (std::size_t i = 0; i < by_weights.size(); ++i) {
      EXPECT_NEAR(by_weights[i], expected_weights[i], 1e-6) << i;
      EXPECT_NEAR(by_logits[i], expected_logits[i], 1e-6) << i;
    }
    tape_.clear();
  }
}

}  // namespace
}  // namespace vitrine::test
