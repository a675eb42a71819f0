// Responses to requests for texts: one JSON object, or the chunks of a stream.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generate/engine.h"
#include "serve/completion_request.h"
#include "serve/logprobs.h"

namespace vitrine {

/// Of a response.
struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  ///< Of the prompts: read earlier, for the same or another request.
  std::int64_t completion_tokens = 0;
  std::optional<std::int64_t> reasoning_tokens{};  ///< Of these; none if answers are not taken apart.
  std::optional<SpeculationCounts> speculation{};  ///< Of all sequences; none without proposals.

  Json to_json() const;
};

class CompletionReply {
 public:
  /// `id` is the response's number. Keeps references to `model` and `request`.
  CompletionReply(const ServedModel& model, const CompletionRequest& request, const std::string& id,
                  std::int64_t created);

  /// The whole response, from the results of all sequences in their order.
  Json whole(std::span<const GenerateResult> results);

  /// The chunks that follow from a step of the engine, whose id is the number of the sequence. Every token is a chunk
  /// of its own; the last one has the finish reason.
  std::vector<Json> chunks(SequenceStep step);
  /// The last chunk of a stream that reports its usage.
  Json usage_chunk() const;

  const Usage& usage() const { return usage_; }

 private:
  /// The state of a streamed choice.
  struct Stream {
    bool has_begun = false;
    bool has_ids = false;  // of the prompt, in an event
    std::optional<Logprobs> logprobs;
    std::vector<std::int32_t> ids;
    std::optional<answer::AnswerReader> reader;  // of a chat whose answers are taken apart
  };

  Logprobs logprobs_of(const Prompt& prompt) const;
  void count_cached(std::size_t sequence, const GenerateResult& result);
  void count_speculation(const GenerateResult& result);
  void add_prompt(const Prompt& prompt, const GenerateResult& result, Logprobs& logprobs) const;
  std::vector<GenerateResult> results_of(std::size_t prompt, std::span<const GenerateResult> all) const;
  Json prompt_logprobs_of(const GenerateResult& result) const;
  std::string lead(const Prompt& prompt) const;
  Json choice(std::size_t index, const std::string& text, Json logprobs, std::optional<FinishReason> reason) const;
  Json message(std::size_t sequence, const std::string& text, bool& has_calls) const;
  Json delta(std::size_t sequence, const answer::AnswerDelta& delta) const;
  Json call_json(std::size_t sequence, const answer::AnswerDelta::Call& call) const;
  void read_piece(Stream& stream, const SequenceStep& step, const std::string& text, Json& choice);
  const char* name_of_calls() const { return request_.has_functions ? "function_call" : "tool_calls"; }
  void count_reasoning(std::span<const std::int32_t> ids);
  Json reports(std::size_t sequence, const std::vector<std::int32_t>& ids) const;
  Json chunk(Json choices) const;
  Json prompt_chunk(Stream& stream, const SequenceStep& step);
  Json token_chunk(Stream& stream, SequenceStep& step);

  const ServedModel& model_;
  const CompletionRequest& request_;
  std::string id_;
  std::int64_t created_;
  Usage usage_;
  std::vector<Stream> streams_;
};

}  // namespace vitrine
