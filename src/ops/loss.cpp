#include "ops/loss.h"

#include <cmath>

namespace vitrine {

Tensor next_token_loss(Pass& p, const Tensor& logits, std::span<const std::int32_t> targets) {
  const std::int64_t n_rows = logits.rows();
  const std::int64_t vocab_size = logits.row_size();
  const Tensor loss = p.tensor({n_rows});
  const Tensor probability = p.tensor(logits.shape);
  p.for_rows(n_rows, 8 * vocab_size, [&](std::int64_t t) {
    const float largest = p.kernels.max(logits.row(t), vocab_size);
    const float sum = p.kernels.exp_sum(logits.row(t), vocab_size, largest, probability.row(t));
    loss.data[t] = std::log(sum) + (largest - logits.row(t)[targets[static_cast<std::size_t>(t)]]);
  });
  return loss;
}

}  // namespace vitrine
