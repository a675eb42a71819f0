// A sequence of an engine: a text that is being generated, or the beams of a search for one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "generate/beam.h"
#include "generate/context.h"
#include "generate/engine.h"
#include "generate/prefix_cache.h"
#include "generate/sequence_speculation.h"
#include "generate/stored_prefix.h"
#include "generate/text_stream.h"

namespace vitrine {

/// A text and its cache. A sequence has one, or one for each beam.
struct Branch {
  std::shared_ptr<KvCache> cache;
  std::vector<std::int32_t> ids;        ///< Prompt and new tokens, of which the cache holds all but those to feed next.
  std::int64_t first = 0;               ///< The position of ids[0]: the cache began with so many tokens.
  std::vector<Extension> extensions{};  ///< Of a beam, from the last logits.
  std::optional<ConstrainedText> answer{};  ///< The new tokens, if the request has a constraint.
  std::string end{};                        ///< Their last bytes, if the request bans texts.

  std::int64_t n_fed() const { return cache->length() - first; }  ///< Of the ids.
};

class Sequence {
 public:
  /// Throws as Engine::add() does.
  Sequence(const GenerateContext& context, GenerateRequest request);

  /// The maximum number of tokens in the cache of a request. The last token chosen is never fed.
  static std::int64_t capacity_of(const GenerateContext& context, const GenerateRequest& request);
  /// An empty cache as a request needs it.
  static KvCache make_cache(const GenerateContext& context, const GenerateRequest& request, std::int64_t capacity);

  /// Whether the next tokens to feed are more than the one that was chosen last: those of the prompt, or, after
  /// restart(), also earlier new ones.
  bool is_reading() const;
  bool has_forced() const { return !forced_.empty(); }  ///< Tokens without a choice are among those to feed next.
  bool has_ended() const { return report.result || report.error; }
  std::span<Branch> branches() { return branches_; }
  Modifiers modifiers() const { return request_.modifiers ? *request_.modifiers : context_.modifiers; }

  /// The source to read with the next tokens: that of the request before the first of them.
  std::span<const std::int32_t> pending_source() const;
  /// At most `most` ids of a branch to feed next: ids of the prompt, or the token chosen last.
  static std::span<const std::int32_t> pending(const Branch& branch, std::int64_t most);

  /// The first id of the prompt whose row has logits or is received, in addition to the last one's logits; beyond
  /// the last if there is none.
  std::int64_t first_row() const;
  std::int64_t chunk() const { return request_.chunk.value_or(context_.chunk); }
  SequenceTaps* taps() const { return request_.taps.get(); }
  bool receives_hidden() const { return static_cast<bool>(request_.receive_hidden); }
  /// Takes the row of the prompt's id number `position`, which is not the last one: its logits,
  void take_prompt_logits(std::int64_t position, std::span<const float> logits);
  /// or normed rows from `position` on.
  void take_hidden(std::int64_t position, const Tensor& rows);
  /// Moves the new log-probabilities of the prompt to the report, if the request wants them in steps.
  void report_prompt();
  /// Takes the logits of the last token of a branch. Branches may take theirs at the same time.
  void take_logits(Branch& branch, std::span<const float> logits, Sampler& sampler);
  /// Continues with the next beams, after all of them have taken their logits.
  void finish_step();

  /// Lets an empty cache begin with a prefix that the context keeps for others, if there is one.
  void restore_prefix();
  /// How many of the next tokens to feed load_stored() adds to the cache instead. 0: none, they are fed.
  std::int64_t n_stored();
  /// Adds them, for which reserve() has taken memory.
  void load_stored();
  /// Called after each pass, and before the cache is freed. Keeps what the cache holds for others, if the context
  /// shares prefixes. `with_last`: also tokens that do not fill a block, and the states after the last token.
  void keep_prefix(bool with_last);
  /// The number of tokens to feed next, at most `most`, so that the pass ends where the cache keeps a snapshot.
  std::int64_t until_snapshot(std::int64_t most) const;
  /// The number of leading tokens that the first feeds of both sequences have in common, and after which the other one
  /// keeps a snapshot if there are states.
  std::int64_t n_shared(const Sequence& other) const;
  /// Whether the cache can be freed and computed again.
  bool can_restart() const { return request_.cache == nullptr && request_.beam.n_beams == 1; }
  /// Frees the cache. All tokens are fed again.
  void restart();
  /// Whether the cache has tokens.
  bool holds_memory() const;
  /// Takes memory for the tokens to feed next, at most `most` of each branch. Returns false if there is not enough.
  bool reserve(std::int64_t most);

  /// What the sequence may read in its next pass, in addition to its last token.
  SpeculationOffer offer();
  /// Its next pass reads at most `n` of the ids that it offers.
  void take_proposals(std::int64_t n);
  std::span<const std::int32_t> proposed() const;  ///< The proposed ids of the next pass.
  /// Takes the logits of the last token (row 0) or of a proposed id, in ascending order. Rows after a proposal that was
  /// wrong are ignored.
  void take_row(std::int64_t row, std::span<const float> logits, Sampler& sampler);
  /// Called after each pass: proposed ids that were wrong leave the cache, or all of them if the pass has failed.
  SpeculationCounts end_pass(bool has_failed);
  /// The reports of the last pass before `report`.
  std::vector<SequenceStep> take_earlier_reports();

  SequenceStep report;
  bool paused = false;
  bool has_begun = false;  ///< Tokens have been fed.

 private:
  std::int64_t n_new() const {
    return static_cast<std::int64_t>(branches_.front().ids.size() - request_.prompt.size());
  }
  /// A cache of `capacity` tokens; that of the request, or a new one.
  std::shared_ptr<KvCache> make_cache(std::int64_t capacity) const;
  Branch first_branch() const;
  bool taps_head() const;
  bool can_speculate() const;
  void start_speculation();
  std::int64_t max_proposed() const;
  bool reserve_more(std::int64_t n);
  void count_acceptance();
  bool shares_prefixes() const;
  PrefixKey prefix_key() const;
  void open_stored();
  void keep_stored();
  /// The most leading tokens that need not be fed.
  std::int64_t max_restored() const;
  /// Where the cache keeps a snapshot for the same prompt and those that continue it: before the prompt's last token,
  /// whose logits every answer needs, or after it if there is no answer.
  std::int64_t before_last() const;
  TextSoFar text_of(const Branch& branch) const;
  std::int64_t tokenizer_size() const { return tokenizer_ != nullptr ? tokenizer_->vocab_size() : 0; }
  std::string text_of(std::span<const std::int32_t> ids) const;
  bool wants_logprobs() const { return request_.wants_logprobs || request_.n_logprobs > 0; }
  TokenReport report_of(std::int32_t id, std::span<const float> logits, const AllowedTokens* allowed = nullptr) const;
  TokenReport report_drawn(std::int32_t id, std::span<const float> logits, const AllowedTokens* allowed,
                           Sampler& sampler) const;
  std::optional<FinishReason> limit_reached();
  void check_answer() const;
  bool is_forced(const Branch& branch) const;
  const AllowedTokens* allowed_after(Branch& branch) const;
  std::span<const float> scores_of(const Branch& branch, const AllowedTokens* allowed, std::span<const float> logits,
                                   Sampler& sampler, std::optional<SamplingConfig>& unpenalized) const;
  void choose(Branch& branch, std::span<const float> logits, Sampler& sampler);
  void extend(Branch& branch, std::span<const float> logits, Sampler& sampler) const;
  void take_forced(Branch& branch);
  /// The tokens that end the reasoning, if it must end here; of a mark that has begun, the rest. Else empty.
  std::vector<std::int32_t> end_of_reasoning() const;
  void end_reasoning(Branch& branch, std::span<const std::int32_t> ids);
  bool report_forced();
  void append_text(Branch& branch, std::int32_t id) const;
  void report_token(const TokenReport& token);
  void show_token(std::int32_t id);
  void show(const std::string& text);
  void finish(FinishReason reason);
  bool is_answer(std::span<const std::int32_t> ids) const;
  void finish_beams();

  GenerateContext context_;
  GenerateRequest request_;
  const Tokenizer* tokenizer_;
  std::vector<Branch> branches_;
  std::int64_t next_row_ = 0;   // the first position whose row has not been taken
  std::size_t n_reported_ = 0;  // log-probabilities of the prompt, in steps
  std::int64_t n_kept_ = 0;     // tokens that keep_prefix() has seen
  bool taps_head_ = false;      // the taps want rows of the head, so every row has logits
  std::optional<BeamSearch> search_;
  std::optional<std::int32_t> before_text_;  // the token before the first one of the text
  std::optional<Detokenizer> detokenizer_;
  TextStream text_;
  TextClock clock_;
  /// Tokens after the last one drawn, which had no choice. They are reported with the next one that is drawn, after
  /// their rows have been read.
  struct Forced {
    TokenReport token;
    std::optional<AllowedTokens> allowed{};  // if its log-probability is reported
  };
  std::vector<Forced> forced_;
  GenerateResult result_;
  std::optional<ReasoningCounter> reasoning_;
  std::optional<StoredPrefix> stored_;                // none: it does not use the store
  std::unique_ptr<SequenceSpeculation> speculation_;  // null: it is decoded token by token
  double sum_ = 0;                                    // Σ log p of the new tokens, if the request wants a score
};

}  // namespace vitrine
