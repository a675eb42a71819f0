#include "serve/completion_reply.h"

#include <algorithm>
#include <numeric>

#include "inspect/probe_values.h"
#include "serve/site_fields.h"

namespace vitrine {
namespace {

/// The mean log-probability of a text's tokens, the stop token included.
double mean_logprob(const GenerateResult& result) {
  double sum = result.stop_token ? result.stop_token->logprob : 0;
  std::size_t n = result.stop_token ? 1 : 0;
  for (const TokenReport& token : result.logprobs) sum += token.logprob;
  n += result.logprobs.size();
  return n > 0 ? sum / static_cast<double>(n) : 0;
}

/// The numbers of the best `n` of some sequences, best first. If all are wanted, they keep their order.
std::vector<std::size_t> best(std::span<const GenerateResult> results, std::size_t n) {
  std::vector<std::size_t> order(results.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (n < results.size()) {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return mean_logprob(results[a]) > mean_logprob(results[b]); });
  }
  order.resize(n);
  return order;
}

}  // namespace

Json Usage::to_json() const {
  Json usage = {{"prompt_tokens", prompt_tokens},
                {"completion_tokens", completion_tokens},
                {"total_tokens", prompt_tokens + completion_tokens},
                {"prompt_tokens_details", {{"cached_tokens", cached_tokens}}}};
  if (reasoning_tokens) usage["completion_tokens_details"] = {{"reasoning_tokens", *reasoning_tokens}};
  if (speculation) {
    usage["completion_tokens_details"]["accepted_prediction_tokens"] = speculation->accepted;
    usage["completion_tokens_details"]["rejected_prediction_tokens"] = speculation->drafted - speculation->accepted;
  }
  return usage;
}

CompletionReply::CompletionReply(const ServedModel& model, const CompletionRequest& request, const std::string& id,
                                 std::int64_t created)
    : model_(model),
      request_(request),
      id_((request.is_chat ? "chatcmpl-" : "cmpl-") + id),
      created_(created),
      streams_(request.streams ? request.n_sequences() : 0) {
  for (const Prompt& prompt : request.prompts) usage_.prompt_tokens += std::ssize(prompt.ids);
  if (request.answers == nullptr) return;
  usage_.reasoning_tokens = 0;
  for (Stream& stream : streams_) stream.reader.emplace(request.answers->reader());
}

void CompletionReply::count_reasoning(std::span<const std::int32_t> ids) {
  if (request_.answers != nullptr) *usage_.reasoning_tokens += request_.answers->n_reasoning(*model_.tokenizer, ids);
}

Json CompletionReply::call_json(std::size_t sequence, const answer::AnswerDelta::Call& call) const {
  Json function = {{"arguments", call.arguments}};
  if (call.begins) function["name"] = call.name;
  if (request_.has_functions) return function;
  Json json = {{"index", call.index}, {"function", std::move(function)}};
  if (!call.begins) return json;
  const std::uint64_t seed = request_.given.seed.value_or(0);
  json["id"] = call.id.empty() ? request_.answers->call_id(seed, sequence, call.index) : call.id;
  json["type"] = "function";
  return json;
}

/// The message of an answer.
Json CompletionReply::message(std::size_t sequence, const std::string& text, bool& has_calls) const {
  Json message = {{"role", "assistant"}, {"content", request_.lead + text}, {"refusal", nullptr}};
  if (request_.answers == nullptr) return message;
  answer::AnswerReader reader = request_.answers->reader();
  reader.append(text);
  reader.finish();
  const answer::AnswerDelta& answer = reader.answer();
  has_calls = !answer.calls.empty();
  message["content"] = request_.lead + answer.content;
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  if (has_calls && answer.content.empty()) message["content"] = nullptr;
  for (const auto& call : answer.calls) {
    answer::AnswerDelta::Call whole = call;
    whole.begins = true;
    if (request_.has_functions) {
      message["function_call"] = call_json(sequence, whole);
      break;
    }
    message["tool_calls"].push_back(call_json(sequence, whole));
    message["tool_calls"].back().erase("index");
  }
  return message;
}

Json CompletionReply::delta(std::size_t sequence, const answer::AnswerDelta& delta) const {
  Json json = Json::object();
  if (!delta.content.empty()) json["content"] = delta.content;
  if (!delta.reasoning.empty()) json["reasoning_content"] = delta.reasoning;
  for (const auto& call : delta.calls) {
    if (request_.has_functions) {
      json["function_call"] = call_json(sequence, call);
    } else {
      json["tool_calls"].push_back(call_json(sequence, call));
    }
  }
  return json;
}

/// A prompt counts once, with what its first sequence did not have to read.
void CompletionReply::count_cached(std::size_t sequence, const GenerateResult& result) {
  if (sequence % request_.n_of_prompt() == 0) usage_.cached_tokens += result.cached_tokens;
}

void CompletionReply::count_speculation(const GenerateResult& result) {
  if (!result.speculation) return;
  if (!usage_.speculation) usage_.speculation.emplace();
  usage_.speculation->add(*result.speculation);
}

Logprobs CompletionReply::logprobs_of(const Prompt& prompt) const {
  const auto previous = request_.echoes ? std::nullopt : std::optional(prompt.ids.back());
  const Tokenizer* const tokenizer = request_.names_ids ? nullptr : model_.tokenizer;
  return {request_.is_chat, request_.n_logprobs(), TokenTexts(tokenizer, previous), request_.logprobs.are_sampled};
}

void CompletionReply::add_prompt(const Prompt& prompt, const GenerateResult& result, Logprobs& logprobs) const {
  logprobs.add_first(prompt.ids.front());
  for (const TokenReport& token : result.prompt_logprobs) logprobs.add(token);
}

Json CompletionReply::prompt_logprobs_of(const GenerateResult& result) const {
  return prompt_logprobs_json(result.prompt_logprobs, *request_.logprobs.n_of_prompt, model_.tokenizer);
}

/// What a choice begins with: the prompt as text, or in a chat the message that it continues.
std::string CompletionReply::lead(const Prompt& prompt) const {
  if (!request_.echoes) return request_.lead;
  if (prompt.text || model_.tokenizer == nullptr) return prompt.text.value_or("");
  std::vector<std::int32_t> known = prompt.ids;
  std::erase_if(known, [&](std::int32_t id) { return id >= model_.tokenizer->vocab_size(); });
  return model_.tokenizer->decode(known);
}

Json CompletionReply::reports(std::size_t sequence, const std::vector<std::int32_t>& ids) const {
  Json sites = Json::array(), probes = Json::array();
  if (!request_.recorders.empty()) {
    const std::vector<SequenceRecorder::Recorded> values = request_.recorders[sequence]->recorded();
    sites = sites_json(values);
    probes = probe_values_json(values);
  }
  Json all = {{"prompt_ids", request_.prompt_of(sequence).ids}, {"ids", ids}, {"sites", std::move(sites)}};
  if (!probes.empty()) all["probes"] = std::move(probes);
  if (!request_.features.empty()) all["features"] = features_json(request_.features[sequence]->features());
  return all;
}

Json CompletionReply::choice(std::size_t index, const std::string& text, Json logprobs,
                             std::optional<FinishReason> reason) const {
  Json choice = {{"index", index}, {"logprobs", std::move(logprobs)}, {"finish_reason", nullptr}};
  if (reason) choice["finish_reason"] = name_of(*reason);
  if (!request_.is_chat) {
    choice["text"] = text;
  } else if (request_.streams) {
    choice["delta"] = {{"content", text}};
  } else {
    bool has_calls = false;
    choice["message"] = message(index, text, has_calls);
    if (has_calls && reason == FinishReason::stop) choice["finish_reason"] = name_of_calls();
  }
  return choice;
}

/// The results of a prompt: those of its sequences, or the texts that its search has found, which may be fewer.
std::vector<GenerateResult> CompletionReply::results_of(std::size_t prompt, std::span<const GenerateResult> all) const {
  const std::span<const GenerateResult> own = all.subspan(prompt * request_.n_of_prompt(), request_.n_of_prompt());
  if (!request_.searches || own.front().hypotheses.empty()) return {own.begin(), own.end()};
  std::vector<GenerateResult> found;
  for (const TextHypothesis& hypothesis : own.front().hypotheses) {
    GenerateResult& result = found.emplace_back();
    result.ids = hypothesis.ids;
    result.text = hypothesis.text;
    result.finish_reason = hypothesis.finish_reason;
    result.cached_tokens = own.front().cached_tokens;
  }
  return found;
}

Json CompletionReply::whole(std::span<const GenerateResult> results) {
  Json choices = Json::array();
  for (std::size_t p = 0; p < request_.prompts.size(); ++p) {
    const Prompt& prompt = request_.prompts[p];
    const std::vector<GenerateResult> own = results_of(p, results);
    const std::size_t first = p * request_.n_of_prompt();
    for (const GenerateResult& result : own) {
      usage_.completion_tokens += std::ssize(result.ids);
      count_speculation(result);
    }
    count_cached(first, own.front());
    for (const std::size_t s : best(own, std::min(own.size(), static_cast<std::size_t>(request_.n)))) {
      const GenerateResult& result = own[s];
      Json logprobs;
      if (request_.reports_logprobs) {
        Logprobs collected = logprobs_of(prompt);
        if (request_.echoes) add_prompt(prompt, result, collected);
        for (const TokenReport& token : result.logprobs) collected.add(token);
        logprobs = collected.take();
      }
      count_reasoning(result.ids);
      const std::string text = request_.is_chat ? result.text : lead(prompt) + result.text;
      Json choice = this->choice(choices.size(), text, std::move(logprobs), result.finish_reason);
      if (request_.reports_ids) choice["vitrine"] = reports(request_.searches ? p : first + s, result.ids);
      if (request_.returns_ids) choice["token_ids"] = result.ids;
      choices.push_back(std::move(choice));
      if (request_.returns_ids && !request_.is_chat) choices.back()["prompt_token_ids"] = prompt.ids;
      if (request_.logprobs.n_of_prompt && !request_.is_chat) {
        choices.back()["prompt_logprobs"] = prompt_logprobs_of(result);
      }
    }
  }
  Json whole = {{"id", id_},
                {"object", request_.is_chat ? "chat.completion" : "text_completion"},
                {"created", created_},
                {"model", request_.model},
                {"choices", std::move(choices)},
                {"usage", usage_.to_json()}};
  if (request_.returns_ids && request_.is_chat) whole["prompt_token_ids"] = request_.prompts.front().ids;
  if (request_.returns_prompt) whole["prompt_text"] = *request_.prompts.front().text;
  if (request_.logprobs.n_of_prompt && request_.is_chat) whole["prompt_logprobs"] = prompt_logprobs_of(results.front());
  return whole;
}

Json CompletionReply::chunk(Json choices) const {
  Json chunk = {{"id", id_},
                {"object", request_.is_chat ? "chat.completion.chunk" : "text_completion"},
                {"created", created_},
                {"model", request_.model},
                {"choices", std::move(choices)}};
  if (request_.streams_usage) chunk["usage"] = request_.streams_every_usage ? usage_.to_json() : Json();
  return chunk;
}

std::vector<Json> CompletionReply::chunks(SequenceStep step) {
  Stream& stream = streams_[step.id];
  std::vector<Json> all;
  const bool begins = request_.echoes && request_.reports_logprobs && !stream.has_begun;
  if (begins || !step.prompt_logprobs.empty()) all.push_back(prompt_chunk(stream, step));
  const bool is_first = !stream.has_begun, is_last = step.result.has_value();
  if (step.tokens.empty() && !is_last) return all;
  Json chunk = token_chunk(stream, step);
  // A reader may hold a text back: then there is nothing to tell.
  const bool is_empty = stream.reader && chunk["choices"][0]["delta"].empty();
  const bool tells_more = request_.reports_logprobs || request_.returns_ids || request_.streams_every_usage;
  if (is_first || is_last || tells_more || !is_empty) all.push_back(std::move(chunk));
  return all;
}

/// Replaces the text of a streamed choice by what it adds to the parts of the answer.
void CompletionReply::read_piece(Stream& stream, const SequenceStep& step, const std::string& text, Json& choice) {
  answer::AnswerDelta delta = stream.reader->append(text);
  choice["delta"] = this->delta(step.id, delta);
  if (!step.result) return;
  const Json last = this->delta(step.id, stream.reader->finish());
  for (const auto& [name, value] : last.items()) {
    Json& own = choice["delta"][name];
    if (value.is_array()) {
      for (const Json& call : value) own.push_back(call);
    } else if (own.is_string()) {
      own = own.get<std::string>() + value.get<std::string>();
    } else if (own.is_null()) {
      own = value;
    } else {
      own["arguments"] = own["arguments"].get<std::string>() + value["arguments"].get<std::string>();
    }
  }
  count_reasoning(stream.ids);
  const bool has_calls = !stream.reader->answer().calls.empty();
  if (has_calls && choice["finish_reason"] == "stop") choice["finish_reason"] = name_of_calls();
}

/// A chunk with log-probabilities of the prompt. The first one also has its text.
Json CompletionReply::prompt_chunk(Stream& stream, const SequenceStep& step) {
  const Prompt& prompt = request_.prompt_of(step.id);
  std::string text;
  if (!std::exchange(stream.has_begun, true)) {
    text = lead(prompt);
    stream.logprobs.emplace(logprobs_of(prompt));
    stream.logprobs->add_first(prompt.ids.front());
  }
  for (const TokenReport& token : step.prompt_logprobs) stream.logprobs->add(token);
  return chunk({choice(step.id, text, stream.logprobs->take(), std::nullopt)});
}

Json CompletionReply::token_chunk(Stream& stream, SequenceStep& step) {
  const Prompt& prompt = request_.prompt_of(step.id);
  std::string text = std::move(step.text);
  const bool is_first = !std::exchange(stream.has_begun, true);
  if (is_first) text = lead(prompt) + text;
  Json logprobs;
  for (const TokenReport& token : step.tokens) {
    ++usage_.completion_tokens;
    stream.ids.push_back(token.id);
    if (!request_.reports_logprobs) continue;
    if (!stream.logprobs) stream.logprobs.emplace(logprobs_of(prompt));
    stream.logprobs->add(token);
  }
  if (request_.reports_logprobs && !step.tokens.empty()) logprobs = stream.logprobs->take();
  std::optional<FinishReason> reason;
  if (step.result) {
    reason = step.result->finish_reason;
    count_cached(step.id, *step.result);
    count_speculation(*step.result);
  }
  Json choice = this->choice(step.id, text, std::move(logprobs), reason);
  if (stream.reader) read_piece(stream, step, text, choice);
  if (is_first && request_.is_chat) choice["delta"]["role"] = "assistant";
  if (step.result && request_.reports_ids) choice["vitrine"] = reports(step.id, stream.ids);
  const bool returns_prompt = request_.returns_ids && std::exchange(stream.has_ids, true) == false;
  if (request_.returns_ids) choice["token_ids"] = Json::array();
  for (const TokenReport& token : step.tokens) {
    if (request_.returns_ids) choice["token_ids"].push_back(token.id);
  }
  if (returns_prompt && !request_.is_chat) choice["prompt_token_ids"] = prompt.ids;
  Json event = chunk({std::move(choice)});
  if (returns_prompt && request_.is_chat) event["prompt_token_ids"] = prompt.ids;
  if (is_first && request_.returns_prompt) event["prompt_text"] = *prompt.text;
  return event;
}

Json CompletionReply::usage_chunk() const {
  Json last = chunk(Json::array());
  last["usage"] = usage_.to_json();
  return last;
}

}  // namespace vitrine
