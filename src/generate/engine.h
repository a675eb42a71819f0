// Generates several sequences together; sequences can be added and canceled at any time.
//
//   Engine engine(context);
//   engine.add(request);
//   while (!engine.empty()) for (const SequenceStep& s : engine.step().sequences) show(s.text);
//
// Each step is one forward. The tokens of a sequence do not depend on the other sequences, on when these are added or
// end, or on how prompts are split into chunks.
#pragma once

#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generate/banned_strings.h"
#include "generate/beam.h"
#include "generate/constrained_text.h"
#include "generate/context.h"
#include "generate/output_rules.h"
#include "generate/reasoning_budget.h"
#include "generate/result.h"
#include "generate/sampler.h"
#include "generate/speculation_counts.h"
#include "generate/text_limits.h"
#include "pass/segment_taps.h"

namespace vitrine {

class Sequence;
struct EngineFeed;
struct RowsOfLogits;

struct GenerateRequest {
  std::vector<std::int32_t> prompt;  ///< At least one id.
  std::vector<std::int32_t> source;  ///< What the encoder reads, if the model has one.
  std::int64_t max_tokens = 128;
  std::optional<std::int64_t> chunk{};  ///< The prompt is read in passes of at most so many tokens; else the context's.
  SamplingConfig sampling;
  std::uint64_t seed = 0;
  std::uint64_t sequence = 0;             ///< Distinguishes sequences with the same seed, in any engine.
  std::vector<std::int32_t> stop_ids;     ///< A drawn stop id ends the text and is not part of it.
  std::vector<std::string> stop_strings;  ///< They require a tokenizer.
  bool shows_stop = false;                ///< The text includes what ends it: the stop string, or the stop id's text.
  bool shows_special = false;             ///< Special tokens appear in the text as the vocabulary spells them,
  std::vector<std::int32_t> shown{};      ///< or only these.
  int n_logprobs = 0;                     ///< Log-probabilities to report for each token; 0: none.
  bool wants_logprobs = false;            ///< Reports each token's own log-probability even if n_logprobs is 0.
  std::vector<std::int32_t> logprob_ids;  ///< If any, their log-probabilities instead of those of the likeliest tokens.
  /// Log-probabilities of new tokens are those with which they were drawn, of Sampler::drawn_from(). A token without a
  /// choice has 0.
  bool wants_sampled_logprobs = false;
  bool wants_prompt_logprobs = false;      ///< Also reports those of the prompt's tokens, except the first.
  std::optional<int> n_prompt_logprobs{};  ///< As many more with each; else n_logprobs.
  std::int64_t first_prompt_logprob = 0;   ///< Only of tokens after this position.
  bool prompt_logprobs_in_steps = false;   ///< As they are computed: the result has none.
  /// Receives the rows of ln_final.hook_out of the prompt from `position` on, ascending, during step(). max_tokens must
  /// be 0. Such a sequence has no logits.
  std::function<void(std::int64_t position, const Tensor& rows)> receive_hidden;
  std::optional<ModifierList> modifiers;  ///< None: those of the context.
  /// Read and change the values of this sequence, also while others are in the same pass. It shares no prefix, and its
  /// cache keeps all positions, so that values are those of one pass over its tokens. Not with beams, an encoder or
  /// recurrent layers, nor in a context that has taps.
  std::shared_ptr<SequenceTaps> taps;
  /// Holds the first tokens of the prompt, fewer than all, which are not fed again. Afterwards it holds every token
  /// that was fed. Null: a new cache. A text ends when the cache is full.
  std::shared_ptr<KvCache> cache;
  bool continues_cache = false;  ///< The prompt comes after the tokens of the cache, which are not among its ids.
  OutputRules rules;
  TextLimits limits{};
  AnswerConstraint answer{};                      ///< It needs a tokenizer,
  std::shared_ptr<const BannedStrings> banned{};  ///< and so do these,
  std::optional<ReasoningBudget> reasoning{};     ///< and this, which beams do not follow.
  std::vector<std::int32_t> prediction{};         ///< Ids that the answer may have: the first ones to be proposed.
  std::string owner;         ///< Only sequences of one owner share keys and values of common prefixes.
  BeamConfig beam;           ///< With several beams temperature must be 0; text arrives when the search ends.
  bool wants_score = false;  ///< Also without beams: GenerateResult::score and one hypothesis.
};

/// The result of one step for one sequence.
struct SequenceStep {
  std::uint64_t id = 0;  ///< As add() returned it.
  /// New tokens, with log-probabilities if requested: those that the constraint forced, then the one drawn.
  std::vector<TokenReport> tokens;
  std::string text;  ///< Whole characters that can be shown now; often empty.
  /// Of the next tokens of the prompt, if the request wants them in steps.
  std::vector<TokenReport> prompt_logprobs;
  /// One of these is set once the sequence has ended: its result, or why it failed. The engine no longer has the
  /// sequence then.
  std::optional<GenerateResult> result;
  std::exception_ptr error;
};

struct EngineStep {
  /// Those that have something to report, in the order of ids; several for a sequence whose proposals were right, one
  /// for each token that was drawn.
  std::vector<SequenceStep> sequences;
  std::int64_t prompt_tokens = 0;   ///< Number of rows of the forward from prompts and sources,
  std::int64_t decoded_tokens = 0;  ///< and from tokens drawn earlier, forced, or proposed and right.
  SpeculationCounts speculation{};  ///< The rows of proposed ids.
};

/// Not thread-safe: use it from one thread at a time.
///
/// If the context's memory for KV caches is exhausted, the engine first frees prefixes that no sequence uses, then the
/// caches of the youngest sequences, which are computed again later. A sequence takes memory only from younger ones and
/// from paused ones, so the oldest always advances.
class Engine {
 public:
  explicit Engine(const GenerateContext& context);
  ~Engine();

  /// Returns the sequence's id; ids count from 0. Throws BadInput for options outside their ranges, and for a prompt
  /// that is empty, has unknown ids or exceeds the context (naming both numbers).
  std::uint64_t add(GenerateRequest request);
  /// Removes a sequence and frees its KV cache immediately, except prefixes that are kept for others. Ids of sequences
  /// that have ended are ignored.
  void cancel(std::uint64_t id);
  /// A paused sequence keeps its cache and takes part in no step. Unknown ids are ignored.
  void pause(std::uint64_t id, bool paused);
  /// Whether a step would have rows.
  bool has_work() const;
  /// The number of sequences that a step feeds one generated token each.
  std::int64_t n_decoding() const;
  bool empty() const { return sequences_.empty(); }  ///< No sequence left.
  /// Whether the memory suffices for the prompt of another sequence, in addition to all tokens that the sequences have
  /// now. Paused ones give way. The first sequence always fits.
  bool fits(const GenerateRequest& request) const;
  /// The bytes of keys and values that suffice for all tokens of a sequence in this context.
  static std::int64_t max_bytes(GenerateContext context, const GenerateRequest& request);
  /// How many times a sequence has lost its cache to an older one.
  std::int64_t n_restarts() const { return n_restarts_; }

  /// Runs one forward: the next token of every sequence whose prompt has been read, then chunks of prompts, in turn
  /// from step to step, until there are `budget` rows. There is at least one row. If there is no prompt to read and the
  /// context has a Speculation, sequences also read proposed ids, to which the budget does not apply. If the values of
  /// a sequence are not finite, or no token can be drawn from its logits, only that sequence fails, as does one whose
  /// keys and values do not fit in the memory even without the others (OutOfCapacity). If the whole forward fails
  /// (Interrupted, not enough memory), so do all of its sequences.
  EngineStep step(std::int64_t budget = std::numeric_limits<std::int64_t>::max());

 private:
  SpeculationCounts forward(const EngineFeed& feed, Pass& pass);
  struct EndedSegment {
    std::size_t number;
    bool was_reading;
    std::exception_ptr error;  // of the whole pass
  };
  static SpeculationCounts end_pass(const EngineFeed& feed, const Pass& pass, const EndedSegment& ended);
  void take_rows(const EngineFeed& feed, Pass& pass, const RowsOfLogits& logits,
                 std::vector<std::exception_ptr>& errors);
  static void deliver_hidden(const EngineFeed& feed, const Pass& pass, const Tensor& rows);
  void feed_decoding(EngineFeed& feed, Pass& pass);
  void take_proposals(std::span<Sequence* const> sequences);
  void feed_reading(EngineFeed& feed, Pass& pass, std::int64_t budget);
  bool begin(Sequence& s, const EngineFeed& feed);
  bool load_stored(Sequence& s, EngineFeed& feed);
  bool reserve(Sequence& s, std::int64_t most, EngineFeed& feed);
  Sequence* find_victim(const Sequence& s, const EngineFeed& feed);
  bool others_use_memory(const Sequence& s) const;
  bool has_free(std::int64_t bytes) const;

  GenerateContext context_;
  Arena arena_;
  std::vector<Sampler> samplers_;  // one for each thread
  std::map<std::uint64_t, std::unique_ptr<Sequence>> sequences_;
  std::uint64_t next_id_ = 0;
  std::uint64_t last_read_ = 0;  // the last sequence whose prompt was read in part
  std::int64_t n_restarts_ = 0;
};

}  // namespace vitrine
