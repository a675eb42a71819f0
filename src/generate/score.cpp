#include "generate/score.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {

void score(const GenerateContext& context, std::span<const std::int32_t> ids,
           const std::function<void(std::int64_t first, const Tensor& logits)>& receive, std::int64_t begin) {
  const std::int64_t max_seq_len = context.model->config().max_seq_len;
  const auto n = static_cast<std::int64_t>(ids.size());
  if (n == 0) throw BadInput("logits", "expected at least one token, got none");
  if (n > max_seq_len) throw BadInput("TEXT", "the text has {} tokens, the model's context is {}", n, max_seq_len);
  KvCache cache = context.model->make_cache(n, context.kv_dtype);
  Arena arena;
  for (std::int64_t first = 0; first < n; first += kPrefillChunk) {
    const std::int64_t length = std::min(kPrefillChunk, n - first);
    Pass pass{{*context.pool, *context.kernels, arena, context.interrupt}, {{0, length, first, &cache}}};
    pass.kv_dtype = context.kv_dtype;
    const std::int64_t skipped = std::clamp<std::int64_t>(begin - first, 0, length);
    pass.logits = {LogitRequest::Rows::range, skipped, length,
                   [&](std::int64_t row, const Tensor& logits) { receive(first + skipped + row, logits); }};
    context.model->forward(pass, ids.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(length)));
  }
}

}  // namespace vitrine
