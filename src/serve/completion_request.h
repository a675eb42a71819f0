// Requests for texts: /v1/completions and /v1/chat/completions, from JSON to what the engine takes.
//
// The fields are OpenAI's (https://platform.openai.com/docs/api-reference) and some of vLLM's; docs/serving.md lists
// them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_answers.h"
#include "generate/engine.h"
#include "inspect/feature_taps.h"
#include "inspect/sequence_recorder.h"
#include "serve/served_model.h"

namespace vitrine {

/// A text to continue.
struct Prompt {
  std::vector<std::int32_t> ids;
  std::optional<std::string> text;  ///< As the client wrote it; absent if the client gave ids.
};

/// Which log-probabilities a request wants besides those of the likeliest tokens of its answers.
struct LogprobWishes {
  std::optional<int> n_of_prompt{};  ///< vLLM's prompt_logprobs: those of the prompt, and of so many tokens more.
  std::vector<std::int32_t> ids{};   ///< vLLM's logprob_token_ids
  bool are_sampled = false;          ///< llama-server's post_sampling_probs
};

/// A request for n choices of each prompt: the best n of best_of sequences. Choice c of a response is choice c mod n of
/// prompt c / n, and sequence s continues prompt s / best_of.
struct CompletionRequest {
  bool is_chat = false;
  bool fills = false;  ///< The middle of texts: the prompts are those of fim_prompt().
  std::string model;   ///< As the client named it.
  std::vector<Prompt> prompts;
  int n = 1, best_of = 1;
  bool searches = false;  ///< The n best texts of n beams, which one sequence finds, instead of best_of sequences.
  std::optional<ModifierList> modifiers{};  ///< Absent: those of all requests.
  GenerateOptions given;
  SamplerTexts texts;  ///< Of `given`.
  std::vector<std::pair<std::int32_t, double>> logit_bias;
  std::vector<std::int32_t> excluded;                ///< Ids that do not occur,
  std::vector<std::vector<std::int32_t>> bad_words;  ///< and sequences of them.
  bool shows_stop = false, shows_special = false;    ///< As in GenerateRequest.
  std::string cache_salt;                        ///< Only requests with the same one share keys and values of prompts.
  std::int64_t max_tokens = 0;                   ///< If neither the client nor the checkpoint limits them.
  bool echoes = false;                           ///< Choices begin with the prompt.
  std::shared_ptr<const ChatAnswers> answers{};  ///< Of a chat; null: they are nothing but content.
  bool has_functions = false;                    ///< Instead of tools: a message has one `function_call`.
  std::vector<std::int32_t> prediction{};        ///< OpenAI's field of that name.
  std::string lead;               ///< What the answers of a chat begin with: the message that they continue.
  bool returns_prompt = false;    ///< The reply has the text of the prompt.
  bool reports_logprobs = false;  ///< As many as given.n_logprobs.
  LogprobWishes logprobs;
  std::optional<RepetitionLimit> repetition{};  ///< vLLM's repetition_detection
  bool names_ids = false;                       ///< Tokens of log-probabilities are "token_id:N".
  bool returns_ids = false;                     ///< Choices have token_ids and prompt_token_ids.
  bool reports_ids = false;                     ///< The field "vitrine".
  /// Of the sequences, if the request reads or changes values; else empty.
  std::vector<std::shared_ptr<SequenceRecorder>> recorders;
  std::vector<std::shared_ptr<SequenceFeatures>> features{};  ///< The same if it wants features.
  bool streams = false;
  bool streams_usage = false;
  bool streams_every_usage = false;                                       ///< Every event has the usage so far.
  std::optional<std::chrono::seconds> silence = std::chrono::seconds(2);  ///< As in PendingReply.

  /// The number of log-probabilities of other tokens with each token.
  int n_logprobs() const {
    return logprobs.ids.empty() ? given.n_logprobs.value_or(0) : static_cast<int>(logprobs.ids.size());
  }
  std::size_t n_of_prompt() const { return searches ? 1 : static_cast<std::size_t>(best_of); }
  std::size_t n_sequences() const { return prompts.size() * n_of_prompt(); }
  const Prompt& prompt_of(std::size_t sequence) const { return prompts[sequence / n_of_prompt()]; }
  /// What the engine takes. Sequence j of a prompt is number j, so choice 0 is the text of `vitrine generate`.
  GenerateRequest sequence(std::size_t number, RequestDefaults defaults) const;
};

/// Parses a body. `seed` is that of a request without one. Throws RequestError, and what the tokenizer throws.
CompletionRequest parse_completion(const ServedModel& model, std::string_view body, std::uint64_t seed);
/// The same for a body of llama-server's /infill (serve/infill.cpp).
CompletionRequest parse_infill(const ServedModel& model, std::string_view body, std::uint64_t seed);
/// The same for a conversation. Also throws what ChatFormat::encode() throws.
CompletionRequest parse_chat(const ServedModel& model, std::string_view body, std::uint64_t seed);

}  // namespace vitrine
