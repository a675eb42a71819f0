#include "generate/sequence.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/math.h"

namespace vitrine {
namespace {

void check_taps(const GenerateContext& context, const GenerateRequest& request) {
  if (!has_sequence_rows(context.model->config())) {
    throw Unsupported("taps", "the model has an encoder or recurrent layers, whose rows do not belong to one sequence");
  }
  if (request.beam.n_beams > 1) throw Unsupported("taps", "a search has several sequences");
  if (context.taps != nullptr) throw InternalError("taps", "expected no taps of the whole pass");
}

/// Throws BadInput for a request that cannot be fulfilled.
void check(const GenerateContext& context, const GenerateRequest& request) {
  const std::int64_t max_seq_len = context.model->config().max_seq_len;
  const auto prompt_size = static_cast<std::int64_t>(request.prompt.size());
  request.sampling.validate();
  request.beam.validate();
  request.rules.validate(context.model->config().vocab_size);
  if (prompt_size == 0) throw BadInput("generate", "expected at least one token to continue");
  if (prompt_size > max_seq_len) {
    throw BadInput("generate", "the prompt has {} tokens, the model's context is {}", prompt_size, max_seq_len);
  }
  if (request.continues_cache && prompt_size > max_seq_len - request.cache->length()) {
    throw BadInput("generate", "the prompt has {} tokens after {}, the model's context is {}", prompt_size,
                   request.cache->length(), max_seq_len);
  }
  context.check_ids(request.prompt);
  context.check_source(request.source);
  if (request.max_tokens < 0) {
    throw BadInput("generate", "expected max_tokens of at least 0, got {}", request.max_tokens);
  }
  if (request.first_prompt_logprob < 0 || request.first_prompt_logprob >= prompt_size) {
    throw BadInput("generate", "expected first_prompt_logprob within [0, {}), got {}", prompt_size,
                   request.first_prompt_logprob);
  }
  if (request.receive_hidden && (request.max_tokens > 0 || request.wants_prompt_logprobs)) {
    throw BadInput("generate", "a prompt whose hidden rows are received has no logits");
  }
  if (request.receive_hidden && context.model->config().encoder) {
    throw Unsupported("generate", "the model has an encoder: its vectors are those of the encoder");
  }
  if (request.taps != nullptr) check_taps(context, request);
  if (!request.stop_strings.empty() && context.tokenizer == nullptr) {
    throw BadInput("generate",
                   "stop strings need a tokenizer: give --tokenizer (stop_strings of generation_config.json do, too)");
  }
  if (request.beam.n_beams == 1) return;
  if (request.sampling.temperature != 0) {
    throw BadInput("beam", "beams take the most probable tokens: they do not sample (temperature {})",
                   request.sampling.temperature);
  }
  if (!request.stop_strings.empty()) throw BadInput("beam", "stop strings are not supported with beams");
  if (request.n_logprobs > 0 || request.wants_logprobs || request.wants_prompt_logprobs)
    throw BadInput("beam", "log-probabilities are not supported with beams");
}

/// log Σ exp(logits). Sums of kBlock exponentials are float32, their total is double.
double log_normalizer(const Kernels& kernels, std::span<const float> logits) {
  constexpr std::size_t kBlock = 1024;
  float exponentials[kBlock];
  const float largest = kernels.max(logits.data(), static_cast<std::int64_t>(logits.size()));
  double sum = 0;
  for (std::size_t first = 0; first < logits.size(); first += kBlock) {
    const std::size_t n = std::min(kBlock, logits.size() - first);
    sum += static_cast<double>(kernels.exp_sum(&logits[first], static_cast<std::int64_t>(n), largest, exponentials));
  }
  return static_cast<double>(largest) + math::log(sum);
}

/// Log-probabilities of all tokens.
void log_softmax(const Kernels& kernels, std::span<const float> logits, std::span<float> result) {
  const double normalizer = log_normalizer(kernels, logits);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    result[i] = static_cast<float>(static_cast<double>(logits[i]) - normalizer);
  }
}

/// The log-probabilities of a token and of others.
TokenReport report_with(std::int32_t id, std::span<const float> logits, std::span<const std::int32_t> others) {
  const double normalizer = log_sum_exp(logits);
  const auto logprob = [&](std::int32_t i) {
    return static_cast<double>(logits[static_cast<std::size_t>(i)]) - normalizer;
  };
  TokenReport own{id, logprob(id), {}};
  for (const std::int32_t each : others) own.top.push_back({each, logprob(each)});
  return own;
}

/// Divides or multiplies the score of each token of the text, as sample() does with logits.
void penalize(std::span<const std::int32_t> ids, double penalty, std::span<float> scores) {
  if (penalty == 1) return;
  std::vector<std::int32_t> distinct(ids.begin(), ids.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (const std::int32_t id : distinct) {
    float& score = scores[static_cast<std::size_t>(id)];
    score = static_cast<float>(score > 0 ? static_cast<double>(score) / penalty : static_cast<double>(score) * penalty);
  }
}

}  // namespace

Sequence::Sequence(const GenerateContext& context, GenerateRequest request)
    : context_(context),
      request_(std::move(request)),
      tokenizer_(context.tokenizer != nullptr ? &context.tokenizer->target() : nullptr),
      text_(request_.stop_strings, request_.shows_stop, tokenizer_ != nullptr && tokenizer_->cleans_up(),
            request_.limits.n_indent) {
  check(context, request_);
  branches_.push_back(first_branch());
  if (request_.answer.constraint != nullptr) branches_.front().answer.emplace(request_.answer);
  const std::int32_t last = request_.prompt.back();
  const bool continues = last < tokenizer_size() && (request_.source.empty() || request_.prompt.size() > 1);
  if (continues) before_text_ = last;
  if (tokenizer_ != nullptr) detokenizer_.emplace(*tokenizer_, before_text_);
  if (request_.reasoning && tokenizer_ != nullptr) reasoning_.emplace(*request_.reasoning);
  taps_head_ = taps_head();
  next_row_ = taps_head_ ? 0 : request_.first_prompt_logprob;
  if (request_.wants_prompt_logprobs) {
    result_.prompt_logprobs.resize(request_.prompt.size() - 1 -
                                   static_cast<std::size_t>(request_.first_prompt_logprob));
  } else if (request_.max_tokens == 0 && !receives_hidden() && request_.taps == nullptr && request_.cache == nullptr) {
    finish(FinishReason::length);
    return;
  }
  const std::int64_t capacity = branches_.front().cache->capacity() - branches_.front().first;
  const std::int64_t room = capacity + 1 - static_cast<std::int64_t>(request_.prompt.size());
  request_.max_tokens = std::min(request_.max_tokens, room);
  check_answer();
  if (request_.beam.n_beams > 1) search_.emplace(request_.beam, request_.max_tokens, request_.stop_ids);
  start_speculation();
  open_stored();
}

TextSoFar Sequence::text_of(const Branch& branch) const {
  return {branch.ids, static_cast<std::int64_t>(branch.ids.size() - request_.prompt.size()), request_.max_tokens,
          request_.stop_ids, request_.source.empty() ? request_.prompt : request_.source};
}

TokenReport Sequence::report_of(std::int32_t id, std::span<const float> logits, const AllowedTokens* allowed) const {
  if (!wants_logprobs()) return {id, 0, {}};
  const bool names_ids = !request_.logprob_ids.empty();
  TokenReport own = report_with(id, logits, names_ids ? request_.logprob_ids : max_likely(logits, request_.n_logprobs));
  if (allowed != nullptr) own.removed = removed_probability(*allowed, logits);
  return own;
}

/// The report of a token that the sampler has drawn.
TokenReport Sequence::report_drawn(std::int32_t id, std::span<const float> logits, const AllowedTokens* allowed,
                                   Sampler& sampler) const {
  if (!request_.wants_sampled_logprobs || !wants_logprobs()) return report_of(id, logits, allowed);
  TokenReport own{id, -std::numeric_limits<double>::infinity(), sampler.drawn_from(request_.n_logprobs, id)};
  for (const TokenLogprob& each : own.top) {
    if (each.id == id) own.logprob = each.logprob;
  }
  own.top.resize(std::min(own.top.size(), static_cast<std::size_t>(request_.n_logprobs)));
  return own;
}

/// Why a limit ends the text after its last token, if one does.
std::optional<FinishReason> Sequence::limit_reached() {
  const bool is_late = clock_.is_over(request_.limits) && report.text.find('\n') != std::string::npos;
  if (is_late) return FinishReason::length;
  const bool repeats = request_.limits.repetition && request_.limits.repetition->is_reached(result_.ids);
  return repeats ? std::optional(FinishReason::stop) : std::nullopt;
}

/// Throws BadInput if there are too few tokens for any answer.
void Sequence::check_answer() const {
  const std::string why = why_too_few(request_.answer, request_.max_tokens);
  if (!why.empty()) throw BadInput("max_tokens", "{}", why);
}

/// Whether the next token is not the model's choice, but the language that the text begins with.
bool Sequence::is_forced(const Branch& branch) const { return request_.rules.forced_first && branch.ids.size() == 1; }

/// Null if every token is. Valid until the text grows.
const AllowedTokens* Sequence::allowed_after(Branch& branch) const {
  if (!branch.answer || is_forced(branch)) return nullptr;
  const auto n_written = std::ssize(branch.ids) - std::ssize(request_.prompt);
  const std::int64_t n_forced = request_.rules.forced_last ? 1 : 0;
  return &branch.answer->allowed(std::max<std::int64_t>(1, request_.max_tokens - n_written - n_forced),
                                 request_.stop_ids);
}

std::int64_t Sequence::first_row() const {
  if (!forced_.empty() && (wants_logprobs() || taps_head_))
    return std::ssize(branches_.front().ids) - std::ssize(forced_) - 1;
  const bool takes_rows = n_new() == 0 && (request_.wants_prompt_logprobs || receives_hidden() || taps_head_);
  return takes_rows ? next_row_ : std::ssize(branches_.front().ids);
}

void Sequence::take_prompt_logits(std::int64_t position, std::span<const float> logits) {
  const std::int64_t n_before = std::ssize(branches_.front().ids) - std::ssize(forced_) - 1;
  if (!forced_.empty()) {
    if (position < n_before) return;
    Forced& own = forced_[static_cast<std::size_t>(position - n_before)];
    if (request_.wants_sampled_logprobs) return;  // 0
    own.token = report_of(own.token.id, logits, own.allowed ? &*own.allowed : nullptr);
    return;
  }
  if (!request_.wants_prompt_logprobs || position < request_.first_prompt_logprob) return;
  TokenReport& own = result_.prompt_logprobs[static_cast<std::size_t>(position - request_.first_prompt_logprob)];
  const std::int32_t id = request_.prompt[static_cast<std::size_t>(position + 1)];
  const int n_top = std::max(request_.n_prompt_logprobs.value_or(0), request_.n_logprobs);
  own = report_with(id, logits, max_likely(logits, n_top));
  own.rank = rank_of(logits, id) + 1;
}

void Sequence::report_prompt() {
  if (!request_.prompt_logprobs_in_steps || !request_.wants_prompt_logprobs || report.error) return;
  const std::int64_t n_read = report.result ? std::ssize(request_.prompt) : branches_.front().n_fed();
  const std::int64_t n_rows = std::min(n_read, std::ssize(request_.prompt) - 1) - request_.first_prompt_logprob;
  std::vector<TokenReport>& all = report.result ? report.result->prompt_logprobs : result_.prompt_logprobs;
  for (; static_cast<std::int64_t>(n_reported_) < n_rows; ++n_reported_) {
    report.prompt_logprobs.push_back(std::move(all[n_reported_]));
  }
  if (report.result) all.clear();
}

void Sequence::take_hidden(std::int64_t position, const Tensor& rows) {
  request_.receive_hidden(position, rows);
  next_row_ = position + rows.rows();
  if (next_row_ == std::ssize(request_.prompt)) finish(FinishReason::length);
}

void Sequence::take_logits(Branch& branch, std::span<const float> logits, Sampler& sampler) {
  if (request_.max_tokens == 0) {
    finish(FinishReason::length);
  } else if (search_) {
    extend(branch, logits, sampler);
  } else {
    choose(branch, logits, sampler);
  }
}

/// The most probable extensions of a beam.
void Sequence::extend(Branch& branch, std::span<const float> logits, Sampler& sampler) const {
  if (!context_.kernels->all_finite(logits.data(), static_cast<std::int64_t>(logits.size()))) {
    throw BadInput("beam", "expected finite logits");
  }
  const std::span<float> scores = sampler.scores(logits.size());
  log_softmax(*context_.kernels, logits, scores);
  if (const AllowedTokens* const allowed = allowed_after(branch)) exclude_others(*allowed, scores);
  if (request_.banned != nullptr) request_.banned->exclude(branch.end, scores);
  apply_before_penalty(request_.rules, text_of(branch), scores);
  penalize(penalized(branch.ids, request_.sampling), request_.sampling.repeat_penalty, scores);
  if (applies(request_.rules, text_of(branch))) apply(request_.rules, text_of(branch), scores);
  const auto beam = static_cast<std::size_t>(&branch - branches_.data());
  branch.extensions.clear();
  add_extensions(scores, search_->n_extensions(), static_cast<int>(beam), search_->beams()[beam].sum,
                 branch.extensions);
}

/// The logits without what the constraint and the rules exclude. `unpenalized` is set if they have been penalized.
std::span<const float> Sequence::scores_of(const Branch& branch, const AllowedTokens* allowed,
                                           std::span<const float> logits, Sampler& sampler,
                                           std::optional<SamplingConfig>& unpenalized) const {
  const TextSoFar text = text_of(branch);
  if (allowed == nullptr && request_.banned == nullptr && !applies(request_.rules, text)) return logits;
  const std::span<float> changed = sampler.scores(logits.size());
  std::copy(logits.begin(), logits.end(), changed.begin());
  if (allowed != nullptr) exclude_others(*allowed, changed);
  if (request_.banned != nullptr) request_.banned->exclude(branch.end, changed);
  if (request_.rules.surround_penalty()) {
    apply_before_penalty(request_.rules, text, changed);
    penalize(penalized(branch.ids, request_.sampling), request_.sampling.repeat_penalty, changed);
    unpenalized = request_.sampling;
    unpenalized->repeat_penalty = 1;
  }
  if (applies(request_.rules, text)) apply(request_.rules, text, changed);
  return changed;
}

void Sequence::choose(Branch& branch, std::span<const float> logits, Sampler& sampler) {
  if (report_forced()) return finish(FinishReason::stop);
  const AllowedTokens* const allowed = allowed_after(branch);
  const bool is_constrained = allowed != nullptr;
  std::optional<SamplingConfig> unpenalized;
  const std::span<const float> scores = scores_of(branch, allowed, logits, sampler, unpenalized);
  const DrawKey key{request_.seed, request_.sequence, result_.ids.size()};
  const SamplingConfig& sampling = unpenalized ? *unpenalized : request_.sampling;
  const std::vector<std::int32_t> ending = end_of_reasoning();
  const std::int32_t id =
      !ending.empty() ? ending.front() : sampler.sample(scores, branch.ids, sampling, key, result_.ids.size());
  if (request_.wants_score) {
    const auto own = static_cast<double>(logits[static_cast<std::size_t>(id)]);
    sum_ += own - log_normalizer(*context_.kernels, logits);
  }
  if (std::find(request_.stop_ids.begin(), request_.stop_ids.end(), id) != request_.stop_ids.end()) {
    result_.stop_token = report_drawn(id, logits, allowed, sampler);
    if (request_.shows_stop) show_token(id);
    return finish(FinishReason::stop);
  }
  const bool is_drawn = ending.empty();
  report_token(is_drawn ? report_drawn(id, logits, allowed, sampler) : report_of(id, logits, allowed));
  branch.ids.push_back(id);
  if (is_constrained) branch.answer->append(id);
  append_text(branch, id);
  if (text_.stopped() || (branch.answer && branch.answer->must_end())) {
    finish(FinishReason::stop);
  } else if (std::ssize(result_.ids) == request_.max_tokens) {
    const bool is_whole = branch.answer && branch.answer->is_complete() && !request_.answer.is_open;
    finish(is_whole ? FinishReason::stop : FinishReason::length);
  } else if (const auto limit = limit_reached()) {
    finish(*limit);
  } else if (!ending.empty()) {
    end_reasoning(branch, std::span(ending).subspan(1));
  } else if (is_constrained) {
    take_forced(branch);
  }
}

void Sequence::append_text(Branch& branch, std::int32_t id) const {
  if (request_.banned == nullptr) return;
  branch.end += request_.banned->bytes(id);
  const std::size_t n = request_.banned->n_bytes();
  if (branch.end.size() > n) branch.end.erase(0, branch.end.size() - n);
}

void Sequence::report_token(const TokenReport& token) {
  report.tokens.push_back(token);
  if (wants_logprobs()) result_.logprobs.push_back(token);
  result_.ids.push_back(token.id);
  if (reasoning_ && token.id < tokenizer_size()) {
    const std::string bytes = tokenizer_->bytes(token.id);
    reasoning_->append(bytes.empty() ? tokenizer_->piece(token.id) : bytes);
  }
  show_token(token.id);
}

void Sequence::finish_step() {
  if (!search_ || has_ended()) return;
  std::vector<Extension> extensions;
  for (const Branch& branch : branches_) {
    extensions.insert(extensions.end(), branch.extensions.begin(), branch.extensions.end());
  }
  if (extensions.empty()) throw BadInput("beam", "the rules exclude every token");
  if (!search_->step(std::move(extensions))) return finish_beams();

  // The first beam that extends a branch continues in its cache; the others copy it, into caches of beams that ended.
  std::vector<Branch> next;
  std::vector<bool> is_taken(branches_.size());
  std::vector<std::size_t> copied;  // beams that need a copy of their parent's cache
  for (const Extension& beam : search_->beams()) {
    const auto parent = static_cast<std::size_t>(beam.beam);
    if (is_taken[parent]) copied.push_back(next.size());
    std::vector<std::int32_t> ids = branches_[parent].ids;
    ids.push_back(beam.id);
    next.push_back({branches_[parent].cache,
                    std::move(ids),
                    branches_[parent].first,
                    {},
                    branches_[parent].answer,
                    branches_[parent].end});
    append_text(next.back(), beam.id);
    if (next.back().answer && !is_forced(branches_[parent])) next.back().answer->append(beam.id);
    is_taken[parent] = true;
  }
  std::size_t spare = 0;
  for (const std::size_t beam : copied) {
    while (spare < branches_.size() && is_taken[spare]) ++spare;
    const KvCache& parent = *next[beam].cache;
    std::shared_ptr<KvCache> cache = spare < branches_.size()
                                         ? branches_[spare++].cache
                                         : std::make_shared<KvCache>(context_.make_cache(parent.capacity()));
    cache->copy_from(parent);
    next[beam].cache = std::move(cache);
  }
  branches_ = std::move(next);
}

void Sequence::show_token(std::int32_t id) {
  if (!detokenizer_ || id >= tokenizer_size()) return;
  std::string bytes = detokenizer_->push(id);
  const bool is_shown = request_.shows_special || std::ranges::find(request_.shown, id) != request_.shown.end();
  if (is_shown && tokenizer_->bytes(id).empty()) bytes = tokenizer_->piece(id);
  show(text_.push(bytes));
}

void Sequence::show(const std::string& text) {
  result_.text += text;
  report.text += text;
}

void Sequence::finish(FinishReason reason) {
  show(text_.flush());
  result_.finish_reason = text_.stopped() ? FinishReason::stop : reason;
  result_.stop_string = text_.stop();
  if (request_.wants_score) {
    const double length = static_cast<double>(result_.ids.size()) + (reason == FinishReason::stop ? 1 : 0);
    result_.score = length > 0 ? sum_ / math::exp(request_.beam.length_penalty * math::log(length)) : 0;
    result_.hypotheses = {{result_.ids, result_.text, result_.score, result_.finish_reason}};
  }
  report.result = std::move(result_);
}

/// Whether new tokens are an answer that the constraint permits.
bool Sequence::is_answer(std::span<const std::int32_t> ids) const {
  if (request_.answer.constraint == nullptr) return false;
  ConstrainedText text(request_.answer);
  for (std::size_t i = request_.rules.forced_first && request_.prompt.size() == 1 ? 1 : 0; i < ids.size(); ++i) {
    text.append(ids[i]);
  }
  return text.is_complete();
}

void Sequence::finish_beams() {
  for (const Hypothesis& hypothesis : search_->hypotheses()) {
    const bool is_whole = hypothesis.stopped || is_answer(hypothesis.ids);
    result_.hypotheses.push_back({hypothesis.ids, text_of(hypothesis.ids), hypothesis.score,
                                  is_whole ? FinishReason::stop : FinishReason::length});
    if (result_.hypotheses.size() > 1) continue;
    result_.ids = hypothesis.ids;
    result_.score = hypothesis.score;
    result_.finish_reason = result_.hypotheses.front().finish_reason;
    report.text = result_.text = result_.hypotheses.front().text;
  }
  report.result = std::move(result_);
}

/// The text of new tokens, without bytes that are not UTF-8.
std::string Sequence::text_of(std::span<const std::int32_t> ids) const {
  if (tokenizer_ == nullptr) return "";
  Detokenizer detokenizer(*tokenizer_, before_text_);
  TextStream stream({}, false, tokenizer_->cleans_up());
  std::string text;
  for (const std::int32_t id : ids) {
    if (id < tokenizer_size()) text += stream.push(detokenizer.push(id));
  }
  return text + stream.flush();
}

}  // namespace vitrine
