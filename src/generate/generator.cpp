#include "generate/generator.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "generate/text_stream.h"

namespace vitrine {
namespace {

using Clock = std::chrono::steady_clock;

/// One text on its way.
class Sequence {
 public:
  Sequence(const GenerateContext& context, const GenerateRequest& request)
      : request_(request), tokenizer_(context.tokenizer), history_(request.prompt), text_(request.stop_strings) {
    const std::int64_t max_seq_len = context.model->config().max_seq_len;
    const auto prompt_size = static_cast<std::int64_t>(request.prompt.size());
    request.sampling.validate();
    if (prompt_size == 0) throw BadInput("generate", "expected at least one token to continue");
    if (prompt_size > max_seq_len) {
      throw BadInput("generate", "the prompt has {} tokens, the model's context is {}", prompt_size, max_seq_len);
    }
    if (request.max_tokens < 0)
      throw BadInput("generate", "expected max_tokens of at least 0, got {}", request.max_tokens);
    if (!request.stop_strings.empty() && tokenizer_ == nullptr) {
      throw BadInput("generate", "stop strings need a tokenizer");
    }
    if (tokenizer_ != nullptr) detokenizer_.emplace(*tokenizer_, last_known(*tokenizer_, request.prompt));
    // The last token that is drawn is never fed back.
    const std::int64_t capacity =
        std::min(max_seq_len, prompt_size + std::max<std::int64_t>(0, request.max_tokens - 1));
    cache_.emplace(context.model->make_cache(capacity, context.kv_dtype));
    finished_ = request.max_tokens == 0;
  }

  bool finished() const { return finished_; }
  KvCache& cache() { return *cache_; }
  /// The ids to feed next: a chunk of the prompt, or the token drawn last.
  std::span<const std::int32_t> pending() const {
    const auto fed = static_cast<std::size_t>(cache_->length());
    const std::span all(history_);
    return all.subspan(fed, std::min<std::size_t>(all.size() - fed, kPrefillChunk));
  }
  bool is_prefilling() const { return result.ids.empty(); }

  /// Takes the logits behind the last of `n_fed` tokens; draws the next one unless more of the prompt is to come.
  /// Returns the text to show.
  std::string take_logits(std::span<const float> logits, std::int64_t n_fed);
  /// The text is over: what was held back.
  std::string flush();

  GenerateResult result;

 private:
  static std::optional<std::int32_t> last_known(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt) {
    return prompt.back() < tokenizer.vocab_size() ? std::optional(prompt.back()) : std::nullopt;
  }
  std::string emit(std::string text) {
    result.text += text;
    return text;
  }

  const GenerateRequest& request_;
  const Tokenizer* tokenizer_;
  std::vector<std::int32_t> history_;
  std::optional<KvCache> cache_;
  std::optional<Detokenizer> detokenizer_;
  TextStream text_;
  bool finished_ = false;
};

std::string Sequence::take_logits(std::span<const float> logits, std::int64_t n_fed) {
  if (cache_->length() + n_fed < static_cast<std::int64_t>(history_.size())) return {};
  const DrawKey key{request_.seed, request_.sequence, result.ids.size()};
  const std::int32_t id = sample(logits, history_, request_.sampling, key);
  if (std::find(request_.stop_ids.begin(), request_.stop_ids.end(), id) != request_.stop_ids.end()) {
    finished_ = true;
    result.finish_reason = FinishReason::stop;
    return {};
  }
  result.ids.push_back(id);
  if (request_.n_logprobs > 0) {
    result.logprobs.push_back({id, logprob(logits, id), top_logprobs(logits, request_.n_logprobs)});
  }
  history_.push_back(id);
  std::string text;
  if (detokenizer_ && id < tokenizer_->vocab_size()) text = emit(text_.push(detokenizer_->push(id)));
  if (text_.stopped()) {
    finished_ = true;
    result.finish_reason = FinishReason::stop;
  } else if (static_cast<std::int64_t>(result.ids.size()) == request_.max_tokens ||
             static_cast<std::int64_t>(history_.size()) > cache_->capacity()) {
    finished_ = true;
  }
  return text;
}

std::string Sequence::flush() {
  std::string text = emit(text_.flush());
  if (text_.stopped()) result.finish_reason = FinishReason::stop;
  return text;
}

/// One forward over all unfinished sequences.
class Round {
 public:
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;
  Round(const GenerateContext& context, Arena& arena, std::vector<Sequence>& sequences, const StreamText& stream)
      : pass_{{*context.pool, *context.kernels, arena, context.interrupt}, {}} {
    pass_.kv_dtype = context.kv_dtype;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      Sequence& s = sequences[i];
      if (s.finished()) continue;
      const auto pending = s.pending();
      const auto length = static_cast<std::int64_t>(pending.size());
      is_prefill_ = is_prefill_ || s.is_prefilling();
      pass_.segments.push_back({static_cast<std::int64_t>(ids_.size()), length, s.cache().length(), &s.cache()});
      ids_.insert(ids_.end(), pending.begin(), pending.end());
      active_.push_back(i);
    }
    pass_.logits.rows = LogitRequest::Rows::last_of_segments;
    pass_.logits.receive = [this, &sequences, &stream](std::int64_t first, const Tensor& logits) {
      for (std::int64_t row = 0; row < logits.rows(); ++row) {
        const auto at = static_cast<std::size_t>(first + row);
        Sequence& s = sequences[active_[at]];
        const std::span<const float> values(logits.row(row), static_cast<std::size_t>(logits.row_size()));
        const std::string text = s.take_logits(values, pass_.segments[at].length);
        if (stream && !text.empty()) stream(active_[at], text);
      }
    };
  }

  bool is_over() const { return active_.empty(); }
  bool is_prefill() const { return is_prefill_; }
  std::size_t n_tokens() const { return ids_.size(); }
  void run(const Model& model) { model.forward(pass_, ids_); }

 private:
  Pass pass_;
  std::vector<std::int32_t> ids_;
  std::vector<std::size_t> active_;
  bool is_prefill_ = false;
};

}  // namespace

std::string_view name_of(FinishReason reason) { return reason == FinishReason::stop ? "stop" : "length"; }

std::vector<GenerateResult> generate(const GenerateContext& context, std::span<const GenerateRequest> requests,
                                     const StreamText& stream, GenerateTimings* timings) {
  std::vector<Sequence> sequences;
  sequences.reserve(requests.size());
  for (const GenerateRequest& request : requests) sequences.emplace_back(context, request);

  Arena arena;
  double seconds[2] = {0, 0};  // decode, prefill
  double tokens[2] = {0, 0};
  for (;;) {
    Round round(context, arena, sequences, stream);
    if (round.is_over()) break;
    const auto start = Clock::now();
    round.run(*context.model);
    seconds[round.is_prefill()] += std::chrono::duration<double>(Clock::now() - start).count();
    tokens[round.is_prefill()] += static_cast<double>(round.n_tokens());
  }
  if (timings != nullptr) {
    timings->prefill_tokens_per_s = seconds[1] > 0 ? tokens[1] / seconds[1] : 0;
    timings->decode_tokens_per_s = seconds[0] > 0 ? tokens[0] / seconds[0] : 0;
  }
  std::vector<GenerateResult> results;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::string rest = sequences[i].flush();
    if (stream && !rest.empty()) stream(i, rest);
    results.push_back(std::move(sequences[i].result));
  }
  return results;
}

}  // namespace vitrine
