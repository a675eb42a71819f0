#include "generate/evaluate.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "generate/sampler.h"
#include "generate/score.h"

namespace vitrine {

namespace {

/// The sum of −log p(target) over the rows of logits; the pool computes rows in parallel.
double sum_of_nats(const GenerateContext& context, const Tensor& logits, std::span<const std::int32_t> targets) {
  std::vector<double> nats(targets.size());
  const auto n = static_cast<std::int64_t>(targets.size());
  context.pool->parallel_for(
      n, std::max<std::int64_t>(1, 4096 / logits.row_size()), [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::span<const float> of_row(logits.row(row), static_cast<std::size_t>(logits.row_size()));
          nats[static_cast<std::size_t>(row)] = -logprob(of_row, targets[static_cast<std::size_t>(row)]);
        }
      });
  double sum = 0;
  for (const double value : nats) sum += value;  // in order, independent of the number of threads
  return sum;
}

/// The length of the tokens [begin, end) of the text in bytes.
class ByteCounter {
 public:
  ByteCounter(const Tokenizer& tokenizer, std::optional<std::int32_t> bos, std::span<const std::int32_t> text)
      : detokenizer_(tokenizer, bos), text_(text) {}
  std::int64_t count(std::int64_t begin, std::int64_t end) {
    std::int64_t bytes = 0;
    for (; next_ < end; ++next_) {
      const auto size = static_cast<std::int64_t>(detokenizer_.push(text_[static_cast<std::size_t>(next_)]).size());
      if (next_ >= begin) bytes += size;
    }
    return bytes;
  }

 private:
  Detokenizer detokenizer_;
  std::span<const std::int32_t> text_;
  std::int64_t next_ = 0;
};

}  // namespace

Evaluation evaluate(const GenerateContext& context, std::span<const std::int32_t> text, const EvalConfig& config,
                    const ReportProgress& report) {
  const ScoreWindow by_logits = [&](std::span<const std::int32_t> ids, std::int64_t first_row,
                                    const std::function<void(std::int64_t)>& done) {
    double nats = 0;
    score(
        context, ids.first(ids.size() - 1),  // no target follows the last one
        [&](std::int64_t row, const Tensor& logits) {
          nats += sum_of_nats(context, logits,
                              ids.subspan(static_cast<std::size_t>(row + 1), static_cast<std::size_t>(logits.rows())));
          done(row);
        },
        first_row);
    return nats;
  };
  return evaluate_windows(context, text, config, by_logits, report);
}

Evaluation evaluate_windows(const GenerateContext& context, std::span<const std::int32_t> text,
                            const EvalConfig& config, const ScoreWindow& score_window, const ReportProgress& report) {
  const std::int64_t max_seq_len = context.model->config().max_seq_len;
  const auto n = static_cast<std::int64_t>(text.size());
  const std::int64_t n_bos = config.bos ? 1 : 0;
  Evaluation result;
  result.window = config.window > 0 ? config.window : max_seq_len;
  if (result.window < 2 || result.window > max_seq_len) {
    throw BadInput("window", "expected 2 to {} tokens (the model's context), got {}", max_seq_len, result.window);
  }
  const std::int64_t text_size = result.window - n_bos;  // text tokens per window
  result.stride = config.stride > 0 ? std::min(config.stride, text_size) : text_size;

  std::optional<ByteCounter> bytes;
  if (context.tokenizer != nullptr) bytes.emplace(*context.tokenizer, config.bos, text);
  std::int64_t counted = 0;  // all tokens of the text before this index have been counted
  for (std::int64_t begin = 0; counted < n; begin += result.stride) {
    const std::int64_t end = std::min(begin + text_size, n);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(n_bos + end - begin), config.bos.value_or(0));
    std::copy(text.begin() + begin, text.begin() + end, ids.begin() + n_bos);
    const std::int64_t first = std::max(counted, begin + 1 - n_bos);  // the first token that counts
    if (first < end) {
      const std::int64_t first_row = n_bos + first - 1 - begin;  // the row of its logits
      result.nats += score_window(ids, first_row, [&](std::int64_t row) {
        if (report) report(begin + row, n);
      });
      result.tokens += end - first;
      if (bytes) result.bytes += bytes->count(first, end);
    }
    ++result.windows;
    counted = end;
  }
  if (result.tokens == 0) throw BadInput("TEXT", "expected at least one token after another one, got {} tokens", n);
  return result;
}

namespace {

constexpr std::size_t kMaxRows = 1 << 11;  // of a pass, unless one pair has more

void check(const GenerateContext& context, const TextPair& pair) {
  const std::int64_t context_length = context.model->config().max_seq_len;
  context.check_source(pair.source);
  context.check_ids(pair.target);
  if (pair.target.empty()) throw BadInput("eval", "expected at least one token in every target");
  if (static_cast<std::int64_t>(pair.target.size()) > context_length) {
    throw BadInput("eval", "a target has {} tokens, the model's context is {}", pair.target.size(), context_length);
  }
}

/// Σ −log p of the targets, in one pass.
double nats_of(const GenerateContext& context, std::span<const TextPair> pairs, std::int32_t start, Arena& arena) {
  Pass pass = context.make_pass(arena);
  std::vector<std::int32_t> inputs, targets, sources;
  for (const TextPair& pair : pairs) {
    pass.segments.push_back({static_cast<std::int64_t>(inputs.size()), static_cast<std::int64_t>(pair.target.size()), 0,
                             nullptr, static_cast<int>(pass.sources.size())});
    pass.sources.push_back({static_cast<std::int64_t>(sources.size()), static_cast<std::int64_t>(pair.source.size())});
    inputs.push_back(start);
    inputs.insert(inputs.end(), pair.target.begin(), pair.target.end() - 1);
    targets.insert(targets.end(), pair.target.begin(), pair.target.end());
    sources.insert(sources.end(), pair.source.begin(), pair.source.end());
  }
  const LossRequest loss{.targets = targets, .weights = {}};
  LossResult found;
  pass.training.loss = &loss;
  pass.training.result = &found;
  context.forward(pass, {inputs, {}, sources});
  return found.cross_entropy;
}

}  // namespace

PairEvaluation evaluate_pairs(const GenerateContext& context, std::span<const TextPair> pairs, std::int32_t start,
                              const ReportProgress& report) {
  for (const TextPair& pair : pairs) check(context, pair);
  PairEvaluation result;
  Arena arena;
  for (std::size_t first = 0; first < pairs.size();) {
    std::size_t end = first, rows = 0;
    const auto size = [&](std::size_t i) { return pairs[i].source.size() + pairs[i].target.size(); };
    while (end < pairs.size() && (end == first || rows + size(end) <= kMaxRows)) {
      rows += size(end);
      result.tokens += static_cast<std::int64_t>(pairs[end++].target.size());
    }
    result.nats += nats_of(context, pairs.subspan(first, end - first), start, arena);
    first = end;
    result.pairs = static_cast<std::int64_t>(first);
    if (report) report(result.pairs, static_cast<std::int64_t>(pairs.size()));
  }
  return result;
}

double kl_divergence(std::span<const float> p, double normalizer_p, std::span<const float> q, double normalizer_q) {
  double kl = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double log_p = static_cast<double>(p[i]) - normalizer_p, log_q = static_cast<double>(q[i]) - normalizer_q;
    const double probability = math::exp(log_p);
    if (probability > 0) kl += probability * (log_p - log_q);
  }
  return std::max(kl, 0.0);
}

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
      result.kl += kl_divergence(of_p, log_sum_exp(of_p), of_q, log_sum_exp(of_q));
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
