#include "generate/divergence.h"

#include <algorithm>
#include <vector>

#include "base/math.h"
#include "generate/score.h"

namespace vitrine {
namespace {

/// log Σ exp(logits)
double log_sum(std::span<const float> logits) {
  const auto most = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float x : logits) sum += math::exp(static_cast<double>(x) - most);
  return most + math::log(sum);
}

double kl_of(std::span<const float> p, std::span<const float> q) {
  const double of_p = log_sum(p), of_q = log_sum(q);
  double kl = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double log_p = static_cast<double>(p[i]) - of_p, log_q = static_cast<double>(q[i]) - of_q;
    kl += math::exp(log_p) * (log_p - log_q);
  }
  return std::max(kl, 0.0);
}

}  // namespace

Divergence divergence(const GenerateContext& p, const GenerateContext& q, const Tokens& tokens) {
  std::vector<float> logits;  // of p
  score(p, tokens, [&](std::int64_t, const Tensor& rows) {
    logits.insert(logits.end(), rows.values().begin(), rows.values().end());
  });
  Divergence result;
  score(q, tokens, [&](std::int64_t first, const Tensor& rows) {
    const auto n = static_cast<std::size_t>(rows.row_size());
    for (std::int64_t row = 0; row < rows.rows(); ++row) {
      const std::span<const float> of_q(rows.row(row), n);
      const std::span<const float> of_p(logits.data() + static_cast<std::size_t>(first + row) * n, n);
      result.kl += kl_of(of_p, of_q);
      const auto top = [](std::span<const float> x) { return std::max_element(x.begin(), x.end()) - x.begin(); };
      result.same_top += top(of_p) == top(of_q) ? 1 : 0;
      ++result.positions;
    }
  });
  result.kl /= static_cast<double>(result.positions);
  result.same_top /= static_cast<double>(result.positions);
  return result;
}

}  // namespace vitrine
