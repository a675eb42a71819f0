// Answers in the form of Ollama's interface (https://docs.ollama.com/api): a JSON object, or one a line.
#pragma once

#include <optional>
#include <string>

#include "base/ordered_json.h"
#include "serve/logprobs.h"
#include "serve/ollama/request.h"
#include "serve/ollama/times.h"
#include "serve/texts.h"

namespace vitrine::ollama {

/// An error as that interface has it: `{"error": message}`.
Json error_json(const RequestError& error);

/// The answer to a request for a text that has nothing to answer.
OrderedJson load_json(const TextRequest& request);

/// The response to a request of one sequence.
class OllamaReply : public TextReply {
 public:
  /// The request came at `start`. Keeps references to `model` and `request`.
  OllamaReply(const ServedModel& model, const CompletionRequest& request, TextRequest asked,
              ServerClock::time_point start);

  std::string whole(std::span<const GenerateResult> results) override;
  /// A line for what a step adds, if it adds something, and the last one with the result.
  std::string events(SequenceStep step) override;
  std::string error_event(const RequestError& error) override;
  const Usage& usage() const override { return usage_; }
  const char* stream_type() const override { return "application/x-ndjson"; }
  std::string_view own_name(std::string_view field) const override {
    return field == "max_tokens" ? "options.num_predict" : "";
  }
  void set_times(const JobTimes& times) override { times_ = times; }

 private:
  OrderedJson object(const answer::AnswerDelta& delta, OrderedJson calls) const;
  OrderedJson new_calls(const GenerateResult* result);
  Json logprobs_of(std::span<const TokenReport> tokens);
  void finish(const GenerateResult& result, OrderedJson& json);

  const ServedModel& model_;
  const CompletionRequest& request_;
  TextRequest asked_;
  ServerClock::time_point start_;
  JobTimes times_;
  Usage usage_;
  Logprobs logprobs_;
  std::optional<answer::AnswerReader> reader_;  // none: the text is nothing but content
  std::size_t n_calls_ = 0;                     // that have been read to their end
};

/// The response to a request for vectors.
Json vectors_json(const VectorRequest& request, const std::vector<std::vector<float>>& vectors, const Durations& took);

}  // namespace vitrine::ollama
