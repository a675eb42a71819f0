#include "ops/route.h"

#include <algorithm>
#include <numeric>

namespace vitrine {

Tensor softmax_rows(Pass& p, const Tensor& logits) {
  const std::int64_t n = logits.row_size();
  const Tensor y = p.tensor(logits.shape);
  p.for_rows(logits.rows(), 8 * n, [&](std::int64_t t) {
    const float most = p.kernels.max(logits.row(t), n);
    const float sum = p.kernels.exp_sum(logits.row(t), n, most, y.row(t));
    p.kernels.normalize(y.row(t), n, 0.0f, sum, y.row(t));
  });
  return y;
}

Tensor choose_largest(Pass& p, const Tensor& weights, std::int64_t k) {
  const std::int64_t n = weights.row_size();
  const Tensor chosen = p.tensor({weights.rows(), k});
  p.for_rows(weights.rows(), 4 * n, [&](std::int64_t t) {
    const float* w = weights.row(t);
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::partial_sort(order.begin(), order.begin() + k, order.end(),
                      [&](std::int64_t a, std::int64_t b) { return w[a] != w[b] ? w[a] > w[b] : a < b; });
    std::transform(order.begin(), order.begin() + k, chosen.row(t),
                   [](std::int64_t e) { return static_cast<float>(e); });
  });
  return chosen;
}

Tensor shares_of(Pass& p, const Tensor& weights, const Tensor& chosen, bool renormalize) {
  const std::int64_t k = chosen.row_size();
  const Tensor shares = p.tensor(chosen.shape);
  for (std::int64_t t = 0; t < chosen.rows(); ++t) {
    float* share = shares.row(t);
    for (std::int64_t r = 0; r < k; ++r) share[r] = weights.row(t)[static_cast<std::int64_t>(chosen.row(t)[r])];
    if (renormalize) p.kernels.normalize(share, k, 0.0f, p.kernels.sum(share, k), share);
  }
  return shares;
}

}  // namespace vitrine
