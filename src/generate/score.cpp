#include "generate/score.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"

namespace vitrine {

void check_feed(const GenerateContext& context, const KvCache& cache, std::span<const std::int32_t> ids) {
  if (cache.length() + static_cast<std::int64_t>(ids.size()) > cache.capacity()) {
    throw BadInput("feed", "expected at most {} tokens in the sequence, got {} after {}", cache.capacity(), ids.size(),
                   cache.length());
  }
  context.check_ids(ids);
}

void feed(const GenerateContext& context, KvCache& cache, const Tokens& tokens, std::int64_t begin,
          const ReceiveRows& receive) {
  const std::int64_t past = cache.length();
  const auto n = static_cast<std::int64_t>(tokens.ids.size());
  check_feed(context, cache, tokens.ids);
  if (past == 0 || !tokens.source.empty()) context.check_source(tokens.source);
  Arena arena;
  for (std::int64_t first = 0; first < n; first += context.chunk) {
    const std::int64_t length = std::min(context.chunk, n - first);
    const std::int64_t skipped = std::clamp<std::int64_t>(begin - first, 0, length);
    Tokens chunk(tokens.ids.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(length)));
    Pass pass = context.make_pass(arena, {{0, length, past + first, &cache}});
    if (first == 0 && !tokens.source.empty()) {
      chunk.source = tokens.source;
      chunk.types = tokens.types;
      pass.sources = {{0, static_cast<std::int64_t>(tokens.source.size())}};
      pass.segments[0].source = 0;
    }
    pass.logits = {LogitRequest::Rows::range, skipped, length,
                   [&](std::int64_t row, const Tensor& logits) { receive(past + first + skipped + row, logits); }};
    context.forward(pass, chunk);
  }
}

void score(const GenerateContext& context, const Tokens& tokens, const ReceiveRows& receive, std::int64_t begin,
           std::int64_t n_padding) {
  const std::int64_t max_seq_len = context.model->config().max_seq_len;
  const auto n = static_cast<std::int64_t>(tokens.ids.size());
  if (n == 0) throw BadInput("logits", "expected at least one token, got none");
  if (n > max_seq_len) throw BadInput("TEXT", "the text has {} tokens, the model's context is {}", n, max_seq_len);
  // No chunks if early tokens depend on late ones, or if there are types or padding, which a later pass would lack.
  const bool has_more = n_padding > 0 || (!tokens.types.empty() && tokens.source.empty());
  if (is_bidirectional(context.model->config()) || has_more) {
    context.check_ids(tokens.ids);
    context.check_source(tokens.source);
    Arena arena;
    Pass pass = context.make_pass(arena, {{0, n, 0, nullptr, tokens.source.empty() ? -1 : 0}});
    if (!tokens.source.empty()) pass.sources = {{0, static_cast<std::int64_t>(tokens.source.size())}};
    (tokens.source.empty() ? pass.segments : pass.sources)[0].n_padding = n_padding;
    pass.logits = {LogitRequest::Rows::range, begin, n,
                   [&](std::int64_t row, const Tensor& logits) { receive(begin + row, logits); }};
    return context.forward(pass, tokens);
  }
  KvCache cache = context.make_cache(n, tokens.source.size());
  feed(context, cache, tokens, begin, receive);
}

void predict_masked(const GenerateContext& context, const Tokens& tokens, std::int32_t mask_id, int n,
                    const ReceivePrediction& receive, const std::function<void(double)>& receive_next) {
  const std::span<const std::int32_t> ids = tokens.ids;
  const ModelConfig& config = context.model->config();
  if (!is_bidirectional(config)) {
    throw Unsupported("fill", "the model predicts the next token: it cannot see the text after a mask");
  }
  std::vector<std::int64_t> masks;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == mask_id) masks.push_back(static_cast<std::int64_t>(i));
  }
  if (masks.empty()) throw BadInput("fill", "the text has no mask (id {})", mask_id);
  context.check_ids(ids);
  Arena arena;
  Pass pass = context.make_pass(arena, {{0, static_cast<std::int64_t>(ids.size()), 0, nullptr}});
  pass.logits.rows = LogitRequest::Rows::chosen;
  pass.logits.chosen = masks;
  pass.logits.receive = [&](std::int64_t first, const Tensor& logits) {
    for (std::int64_t row = 0; row < logits.rows(); ++row) {
      const std::span<const float> of_row(logits.row(row), static_cast<std::size_t>(logits.row_size()));
      receive(masks[static_cast<std::size_t>(first + row)], top_logprobs(of_row, n));
    }
  };
  if (receive_next) {
    pass.receive_next_sentence = [&](const Tensor& logits) { receive_next(math::exp(logprob({logits.row(0), 2}, 0))); };
  }
  context.forward(pass, tokens);
}

void predict(const GenerateContext& context, const Tokens& tokens, int n, const ReceivePrediction& receive,
             std::int64_t n_padding) {
  const ReceiveRows rank = [&](std::int64_t first, const Tensor& logits) {
    std::vector<std::vector<TokenLogprob>> tops(static_cast<std::size_t>(logits.rows()));
    context.pool->parallel_for(logits.rows(), 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::span<const float> of_row(logits.row(row), static_cast<std::size_t>(logits.row_size()));
        tops[static_cast<std::size_t>(row)] = top_logprobs(of_row, n);
      }
    });
    for (std::size_t row = 0; row < tops.size(); ++row) receive(first + static_cast<std::int64_t>(row), tops[row]);
  };
  score(context, tokens, rank, 0, n_padding);
}

}  // namespace vitrine
