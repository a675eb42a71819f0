#include "generate/predict.h"

#include "generate/score.h"

namespace vitrine {

void predict(const GenerateContext& context, std::span<const std::int32_t> ids, int n,
             const ReceivePrediction& receive) {
  score(context, ids, [&](std::int64_t first, const Tensor& logits) {
    std::vector<std::vector<TokenLogprob>> tops(static_cast<std::size_t>(logits.rows()));
    context.pool->parallel_for(logits.rows(), 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::span<const float> of_row(logits.row(row), static_cast<std::size_t>(logits.row_size()));
        tops[static_cast<std::size_t>(row)] = top_logprobs(of_row, n);
      }
    });
    for (std::size_t row = 0; row < tops.size(); ++row) receive(first + static_cast<std::int64_t>(row), tops[row]);
  });
}

}  // namespace vitrine
