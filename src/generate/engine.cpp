#include "generate/engine.h"

#include <algorithm>

#include "base/error.h"
#include "generate/text_stream.h"

namespace vitrine {
namespace {

/// The maximum number of tokens in the KV cache of a request. The last token drawn is never fed.
std::int64_t capacity_of(const GenerateContext& context, const GenerateRequest& request) {
  const std::int64_t max_seq_len = context.model->config().max_seq_len;
  const auto prompt_size = static_cast<std::int64_t>(request.prompt.size());
  request.sampling.validate();
  if (prompt_size == 0) throw BadInput("generate", "expected at least one token to continue");
  if (prompt_size > max_seq_len) {
    throw BadInput("generate", "the prompt has {} tokens, the model's context is {}", prompt_size, max_seq_len);
  }
  context.check_ids(request.prompt);
  context.check_source(request.source);
  if (request.max_tokens < 0) {
    throw BadInput("generate", "expected max_tokens of at least 0, got {}", request.max_tokens);
  }
  if (!request.stop_strings.empty() && context.tokenizer == nullptr) {
    throw BadInput("generate", "stop strings need a tokenizer");
  }
  return std::min(max_seq_len - prompt_size, std::max<std::int64_t>(0, request.max_tokens - 1)) + prompt_size;
}

}  // namespace

class Engine::Sequence {
 public:
  Sequence(const GenerateContext& context, GenerateRequest request)
      : cache(context.make_cache(capacity_of(context, request), request.source.size())),
        request_(std::move(request)),
        tokenizer_(context.tokenizer),
        history_(request_.prompt),
        text_(request_.stop_strings) {
    const std::int32_t last = history_.back();
    const bool continues = last < tokenizer_size() && (request_.source.empty() || history_.size() > 1);
    if (tokenizer_ != nullptr) detokenizer_.emplace(*tokenizer_, continues ? std::optional(last) : std::nullopt);
    if (request_.max_tokens == 0) finish(FinishReason::length);
  }

  /// The source to read with the next tokens: that of the request before the first of them.
  std::span<const std::int32_t> pending_source() const {
    return cache.length() == 0 ? std::span<const std::int32_t>(request_.source) : std::span<const std::int32_t>();
  }
  bool has_read_prompt() const { return history_.size() > request_.prompt.size(); }
  bool has_ended() const { return report.result || report.error; }

  /// At most `most` ids to feed next: ids of the prompt, or the token drawn last.
  std::span<const std::int32_t> pending(std::int64_t most) const {
    const auto all = std::span(history_).subspan(static_cast<std::size_t>(cache.length()));
    return all.first(std::min(all.size(), static_cast<std::size_t>(most)));
  }

  /// Whether a token is drawn after the next `n_fed` tokens, which is the case once the whole prompt has been fed.
  bool draws_after(std::size_t n_fed) const {
    return static_cast<std::size_t>(cache.length()) + n_fed == history_.size();
  }
  /// Draws the next token from the logits of the last one.
  void take_logits(std::span<const float> logits);

  KvCache cache;
  SequenceStep report;

 private:
  std::int64_t tokenizer_size() const { return tokenizer_ != nullptr ? tokenizer_->vocab_size() : 0; }
  void show(const std::string& text) {
    result_.text += text;
    report.text += text;
  }
  void finish(FinishReason reason) {
    show(text_.flush());
    result_.finish_reason = text_.stopped() ? FinishReason::stop : reason;
    report.result = std::move(result_);
  }

  GenerateRequest request_;
  const Tokenizer* tokenizer_;
  std::vector<std::int32_t> history_;
  std::optional<Detokenizer> detokenizer_;
  TextStream text_;
  GenerateResult result_;
};

void Engine::Sequence::take_logits(std::span<const float> logits) {
  const DrawKey key{request_.seed, request_.sequence, result_.ids.size()};
  const std::int32_t id = sample(logits, history_, request_.sampling, key);
  if (std::find(request_.stop_ids.begin(), request_.stop_ids.end(), id) != request_.stop_ids.end()) {
    return finish(FinishReason::stop);
  }
  report.token = TokenReport{id, 0, {}};
  if (request_.n_logprobs > 0) {
    report.token = {id, logprob(logits, id), top_logprobs(logits, request_.n_logprobs)};
    result_.logprobs.push_back(*report.token);
  }
  result_.ids.push_back(id);
  history_.push_back(id);
  if (detokenizer_ && id < tokenizer_size()) show(text_.push(detokenizer_->push(id)));
  if (text_.stopped()) {
    finish(FinishReason::stop);
  } else if (static_cast<std::int64_t>(result_.ids.size()) == request_.max_tokens ||
             static_cast<std::int64_t>(history_.size()) > cache.capacity()) {
    finish(FinishReason::length);
  }
}

Engine::Engine(const GenerateContext& context) : context_(context) {}
Engine::~Engine() = default;

std::uint64_t Engine::add(GenerateRequest request) {
  auto sequence = std::make_unique<Sequence>(context_, std::move(request));
  sequence->report.id = next_id_;
  sequences_.emplace(next_id_, std::move(sequence));
  return next_id_++;
}

void Engine::cancel(std::uint64_t id) { sequences_.erase(id); }

EngineStep Engine::step(std::int64_t budget) {
  Pass pass = context_.make_pass(arena_);
  std::vector<std::int32_t> ids, source_ids;
  std::vector<Sequence*> fed;    // one for each segment
  std::vector<Sequence*> drawn;  // one for each row with logits
  pass.logits.rows = LogitRequest::Rows::chosen;
  const auto n_rows = [&] { return static_cast<std::int64_t>(ids.size()); };
  const auto feed = [&](Sequence& s, std::int64_t most) {
    const auto pending = s.pending(most);
    pass.segments.push_back({n_rows(), static_cast<std::int64_t>(pending.size()), s.cache.length(), &s.cache});
    if (const auto source = s.pending_source(); !source.empty()) {
      pass.segments.back().source = static_cast<int>(pass.sources.size());
      pass.sources.push_back({static_cast<std::int64_t>(source_ids.size()), static_cast<std::int64_t>(source.size())});
      source_ids.insert(source_ids.end(), source.begin(), source.end());
    }
    ids.insert(ids.end(), pending.begin(), pending.end());
    fed.push_back(&s);
    if (!s.draws_after(pending.size())) return;
    drawn.push_back(&s);
    pass.logits.chosen.push_back(n_rows() - 1);
  };
  for (const auto& [id, s] : sequences_) {
    if (!s->has_ended() && s->has_read_prompt()) feed(*s, 1);
  }
  EngineStep step;
  step.decoded_tokens = n_rows();
  for (const auto& [id, s] : sequences_) {
    if (s->has_ended() || s->has_read_prompt()) continue;
    if (n_rows() > 0 && n_rows() + static_cast<std::int64_t>(source_ids.size()) >= budget) break;
    const std::int64_t n_fed = n_rows() + static_cast<std::int64_t>(source_ids.size());
    feed(*s, std::clamp<std::int64_t>(budget - n_fed, 1, kPrefillChunk));
  }
  step.prompt_tokens = n_rows() + static_cast<std::int64_t>(source_ids.size()) - step.decoded_tokens;
  if (!fed.empty()) forward(fed, drawn, pass, {ids, {}, source_ids});

  for (auto at = sequences_.begin(); at != sequences_.end();) {
    Sequence& s = *at->second;
    const bool has_ended = s.has_ended();
    if (has_ended || s.report.token) {
      const std::uint64_t id = s.report.id;
      step.sequences.push_back(std::exchange(s.report, {id, {}, {}, {}, {}}));
    }
    at = has_ended ? sequences_.erase(at) : std::next(at);
  }
  return step;
}

/// Runs the pass, in which segment i belongs to fed[i], and row i of the logits to drawn[i].
void Engine::forward(std::span<Sequence* const> fed, std::span<Sequence* const> drawn, Pass& pass,
                     const Tokens& tokens) {
  pass.logits.receive = [&](std::int64_t first, const Tensor& logits) {
    pass.for_rows(logits.rows(), 8 * logits.row_size(), [&](std::int64_t row) {
      const auto at = static_cast<std::size_t>(first + row);
      try {
        drawn[at]->take_logits({logits.row(row), static_cast<std::size_t>(logits.row_size())});
      } catch (...) {
        drawn[at]->report.error = std::current_exception();
      }
    });
  };
  std::exception_ptr error;
  try {
    context_.model->forward(pass, tokens);
  } catch (...) {
    error = std::current_exception();
  }
  for (std::size_t i = 0; i < fed.size(); ++i) {
    const Segment& segment = pass.segments[i];
    if (error) fed[i]->report.error = error;
    if (!segment.failure) continue;
    const bool in_source = segment.failure->where.stack == Stack::encoder;
    const std::int64_t first = in_source ? pass.sources[static_cast<std::size_t>(segment.source)].first_row
                                         : segment.first_row - segment.position;
    const Failure failure{segment.failure->where, segment.failure->row - first};
    fed[i]->report.error = std::make_exception_ptr(error_of(failure));
  }
}

}  // namespace vitrine
