// A sequence of an engine: a text that is being generated, or the beams of a search for one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "generate/beam.h"
#include "generate/context.h"
#include "generate/engine.h"
#include "generate/text_stream.h"

namespace vitrine {

/// A text and its cache. A sequence has one, or one for each beam.
struct Branch {
  std::shared_ptr<KvCache> cache;
  std::vector<std::int32_t> ids;        ///< Prompt and new tokens, of which the cache holds all but those to feed next.
  std::vector<Extension> extensions{};  ///< Of a beam, from the last logits.
};

class Sequence {
 public:
  /// Throws as Engine::add() does.
  Sequence(const GenerateContext& context, GenerateRequest request);

  bool has_read_prompt() const { return n_new() > 0; }
  bool has_ended() const { return report.result || report.error; }
  std::span<Branch> branches() { return branches_; }
  AppliedAdapters adapters() const { return request_.adapters ? *request_.adapters : context_.adapters; }

  /// The source to read with the next tokens: that of the request before the first of them.
  std::span<const std::int32_t> pending_source() const;
  /// At most `most` ids of a branch to feed next: ids of the prompt, or the token chosen last.
  static std::span<const std::int32_t> pending(const Branch& branch, std::int64_t most);
  /// Whether a token is chosen after the next `n_fed` tokens, which is the case once the whole prompt has been fed.
  static bool draws_after(const Branch& branch, std::size_t n_fed);

  /// Whether every row of the prompt has logits, not only the last one.
  bool scores_prompt() const { return request_.wants_prompt_logprobs && !has_read_prompt(); }
  /// Takes the logits of the prompt's token at `position`, which is not the last one.
  void take_prompt_logits(std::int64_t position, std::span<const float> logits);
  /// Takes the logits of the last token of a branch. Branches may take theirs at the same time.
  void take_logits(Branch& branch, std::span<const float> logits);
  /// Continues with the next beams, after all of them have taken their logits.
  void finish_step();

  SequenceStep report;
  bool paused = false;

 private:
  std::int64_t n_new() const {
    return static_cast<std::int64_t>(branches_.front().ids.size() - request_.prompt.size());
  }
  TextSoFar text_of(const Branch& branch) const;
  std::int64_t tokenizer_size() const { return tokenizer_ != nullptr ? tokenizer_->vocab_size() : 0; }
  std::string text_of(std::span<const std::int32_t> ids) const;
  bool wants_logprobs() const { return request_.wants_logprobs || request_.n_logprobs > 0; }
  TokenReport report_of(std::int32_t id, std::span<const float> logits) const;
  void choose(Branch& branch, std::span<const float> logits);
  void extend(Branch& branch, std::span<const float> logits) const;
  void show(const std::string& text);
  void finish(FinishReason reason);
  void finish_beams();

  GenerateContext context_;
  GenerateRequest request_;
  const Tokenizer* tokenizer_;
  std::vector<Branch> branches_;
  std::optional<BeamSearch> search_;
  std::optional<std::int32_t> before_text_;  // the token before the first one of the text
  std::optional<Detokenizer> detokenizer_;
  TextStream text_;
  GenerateResult result_;
  double sum_ = 0;  // Σ log p of the new tokens, if the request wants a score
};

}  // namespace vitrine
