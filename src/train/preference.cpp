#include "train/preference.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "train/logistic.h"

namespace vitrine {
namespace {

using Objective = PreferenceOptions::Objective;

/// ln(p / (1 − p)) of p = exp(x).
double log_odds(double x) { return x - math::log(1 - math::exp(x)); }

}  // namespace

PairLoss pair_loss(const PreferenceOptions& o, const PairScore& score, const PairScore& reference,
                   const AnswerLengths& lengths) {
  const auto nc = static_cast<double>(lengths.chosen), nr = static_cast<double>(lengths.rejected);
  const double delta = (score.chosen - reference.chosen) - (score.rejected - reference.rejected);
  PairLoss result;
  double slope = 0;  // ∂loss/∂margin
  switch (o.objective) {
    case Objective::dpo:
      result.margin = o.beta * delta;
      result.loss = (1 - o.label_smoothing) * softplus_of_minus(result.margin) +
                    o.label_smoothing * softplus_of_minus(-result.margin);
      slope = (1 - o.label_smoothing) * -sigmoid(-result.margin) + o.label_smoothing * sigmoid(result.margin);
      result.by_chosen = slope * o.beta;
      result.by_rejected = -slope * o.beta;
      return result;
    case Objective::hinge:
      result.margin = o.beta * delta;
      result.loss = std::max(0.0, 1 - result.margin);
      slope = result.margin < 1 ? -1 : 0;
      result.by_chosen = slope * o.beta;
      result.by_rejected = -slope * o.beta;
      return result;
    case Objective::ipo: {
      result.margin = (score.chosen - reference.chosen) / nc - (score.rejected - reference.rejected) / nr;
      const double error = result.margin - 1 / (2 * o.beta);
      result.loss = error * error;
      result.by_chosen = 2 * error / nc;
      result.by_rejected = -2 * error / nr;
      return result;
    }
    case Objective::simpo:
      result.margin = o.beta * (score.chosen / nc - score.rejected / nr);
      result.loss = softplus_of_minus(result.margin - o.gamma);
      slope = -sigmoid(o.gamma - result.margin);
      result.by_chosen = slope * o.beta / nc;
      result.by_rejected = -slope * o.beta / nr;
      return result;
    case Objective::orpo: {
      const double c = score.chosen / nc, r = score.rejected / nr;
      result.margin = log_odds(c) - log_odds(r);
      result.loss = -score.chosen / lengths.mean_chosen + o.beta * softplus_of_minus(result.margin);
      slope = -o.beta * sigmoid(-result.margin);
      result.by_chosen = -1 / lengths.mean_chosen + slope / (1 - math::exp(c)) / nc;
      result.by_rejected = -slope / (1 - math::exp(r)) / nr;
      return result;
    }
  }
  throw InternalError("pair_loss", "unknown objective");
}

void PairSums::add(const PairSums& sums) {
  loss += sums.loss;
  margin += sums.margin;
  n_right += sums.n_right;
  n += sums.n;
}

void PairSums::add(const PairLoss& pair) {
  loss += pair.loss;
  margin += pair.margin;
  n_right += pair.margin > 0 ? 1 : 0;
  ++n;
}

}  // namespace vitrine
