// The losses of pairs: the formulas, and their derivatives against differences.
#include "train/preference.h"

#include <gtest/gtest.h>

#include <cmath>

namespace vitrine::test {
namespace {

using Objective = PreferenceOptions::Objective;

constexpr PairScore kScore{-12.5, -14.25}, kReference{-13.0, -14.0};
constexpr AnswerLengths kLengths{5, 7, 6};

double log_sigmoid(double x) { return -std::log1p(std::exp(-x)); }

PairLoss loss_of(Objective objective, double beta, double smoothing, double gamma, const PairScore& score) {
  PreferenceOptions options;
  options.objective = objective;
  options.beta = beta;
  options.label_smoothing = smoothing;
  options.gamma = gamma;
  return pair_loss(options, score, kReference, kLengths);
}

TEST(Preference, EqualsTheFormulas) {
  const double delta = (-12.5 + 13.0) - (-14.25 + 14.0), c = -12.5 / 5, r = -14.25 / 7;
  const auto loss = [](Objective o, double beta, double smoothing = 0, double gamma = 0) {
    return loss_of(o, beta, smoothing, gamma, kScore).loss;
  };
  EXPECT_NEAR(loss(Objective::dpo, 0.1), -log_sigmoid(0.1 * delta), 1e-12);
  EXPECT_NEAR(loss(Objective::dpo, 0.2, 0.15), -0.85 * log_sigmoid(0.2 * delta) - 0.15 * log_sigmoid(-0.2 * delta),
              1e-12);
  EXPECT_NEAR(loss(Objective::hinge, 0.05), 1 - 0.05 * delta, 1e-12);
  EXPECT_EQ(loss(Objective::hinge, 2), 0);
  EXPECT_NEAR(loss(Objective::ipo, 0.1), std::pow(0.5 / 5 + 0.25 / 7 - 5, 2), 1e-12);
  EXPECT_NEAR(loss(Objective::simpo, 2, 0, 0.5), -log_sigmoid(2 * (c - r) - 0.5), 1e-12);
  const double odds = c - std::log1p(-std::exp(c)) - r + std::log1p(-std::exp(r));
  EXPECT_NEAR(loss(Objective::orpo, 0.1), 12.5 / 6 - 0.1 * log_sigmoid(odds), 1e-12);
}

TEST(Preference, DerivativesEqualDifferences) {
  constexpr double kStep = 1e-5;
  for (const Objective o : {Objective::dpo, Objective::hinge, Objective::ipo, Objective::simpo, Objective::orpo}) {
    SCOPED_TRACE(static_cast<int>(o));
    const auto at = [&](double dc, double dr) {
      return loss_of(o, 0.3, o == Objective::dpo ? 0.2 : 0, 0.4, {kScore.chosen + dc, kScore.rejected + dr});
    };
    const PairLoss found = at(0, 0);
    EXPECT_NEAR(found.by_chosen, (at(kStep, 0).loss - at(-kStep, 0).loss) / (2 * kStep), 1e-6);
    EXPECT_NEAR(found.by_rejected, (at(0, kStep).loss - at(0, -kStep).loss) / (2 * kStep), 1e-6);
  }
}

TEST(Preference, LargeMarginsDoNotOverflow) {
  for (const double margin : {-1e4, 1e4}) {
    const PairLoss loss = loss_of(Objective::dpo, 1, 0, 0, {margin, 0});
    EXPECT_TRUE(std::isfinite(loss.loss));
    EXPECT_TRUE(std::isfinite(loss.by_chosen));
  }
}

}  // namespace
}  // namespace vitrine::test
