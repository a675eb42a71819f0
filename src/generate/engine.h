// Sequences that come and go, continued together: prefill, decode, stop reasons.
//
//   Engine engine(context);
//   engine.add(request);
//   while (!engine.empty()) for (const SequenceStep& s : engine.step().sequences) show(s.text);
//
// Each step is one forward. The tokens of a sequence do not depend on the other sequences, on when they come and go, or
// on how prompts are cut into chunks.
#pragma once

#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generate/context.h"
#include "generate/result.h"
#include "generate/sampler.h"

namespace vitrine {

struct GenerateRequest {
  std::vector<std::int32_t> prompt;  ///< At least one id.
  std::int64_t max_tokens = 128;
  SamplingConfig sampling;
  std::uint64_t seed = 0;
  std::uint64_t sequence = 0;             ///< Distinguishes sequences with the same seed, wherever they run.
  std::vector<std::int32_t> stop_ids;     ///< Each of them ends the text and is not part of it.
  std::vector<std::string> stop_strings;  ///< Need a tokenizer.
  int n_logprobs = 0;                     ///< Log-probabilities to report for each token; 0: none.
};

/// What one step did to one sequence.
struct SequenceStep {
  std::uint64_t id = 0;              ///< As add() returned it.
  std::optional<TokenReport> token;  ///< The token drawn, if any; with log-probabilities where the request wants them.
  std::string text;                  ///< Whole characters that can be shown now; often empty.
  /// Set once the sequence has ended: its result, or why it failed. The engine has forgotten it then.
  std::optional<GenerateResult> result;
  std::exception_ptr error;
};

struct EngineStep {
  std::vector<SequenceStep> sequences;  ///< In the order of their ids; those that drew a token or ended.
  std::int64_t prompt_tokens = 0;       ///< Rows of the forward that came from prompts,
  std::int64_t decoded_tokens = 0;      ///< and those that came from earlier draws.
};

/// Used by one thread at a time.
class Engine {
 public:
  explicit Engine(const GenerateContext& context);
  ~Engine();

  /// Returns the sequence's id; ids count from 0. Throws BadInput for options outside their ranges, and for a prompt
  /// that is empty, has unknown ids or exceeds the context (naming both numbers); OutOfCapacity without memory for the
  /// KV cache.
  std::uint64_t add(GenerateRequest request);
  /// Forgets a sequence and frees its KV cache at once. Ids of sequences that have ended are ignored.
  void cancel(std::uint64_t id);
  bool empty() const { return sequences_.empty(); }  ///< No sequence left.

  /// Runs one forward: the next token of every sequence whose prompt has been read, then chunks of prompts, oldest
  /// first, until there are `budget` rows. There is at least one row. A sequence fails alone where its values are not
  /// finite or nothing can be drawn from its logits. Where the whole forward fails (Interrupted, no memory), so do all
  /// of its sequences.
  EngineStep step(std::int64_t budget = std::numeric_limits<std::int64_t>::max());

 private:
  class Sequence;
  void forward(std::span<Sequence* const> fed, std::span<Sequence* const> drawn, Pass& pass,
               std::span<const std::int32_t> ids);

  GenerateContext context_;
  Arena arena_;
  std::map<std::uint64_t, std::unique_ptr<Sequence>> sequences_;
  std::uint64_t next_id_ = 0;
};

}  // namespace vitrine
