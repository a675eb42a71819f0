#include "serve/ollama/reply.h"

#include "chat/chat_answers.h"

namespace vitrine::ollama {
namespace {

OrderedJson object_of(const TextRequest& request, const std::string& text) {
  OrderedJson json = {{"model", request.model}, {"created_at", time_text(std::chrono::system_clock::now())}};
  if (request.has_message) {
    json["message"] = {{"role", "assistant"}, {"content", text}};
  } else {
    json["response"] = text;
  }
  return json;
}

}  // namespace

Json error_json(const RequestError& error) { return {{"error", error.what()}}; }

OrderedJson load_json(const TextRequest& request) {
  OrderedJson json = object_of(request, "");
  json["done"] = true;
  json["done_reason"] = "load";
  return json;
}

OllamaReply::OllamaReply(const ServedModel& model, const CompletionRequest& request, TextRequest asked,
                         ServerClock::time_point start)
    : model_(model),
      request_(request),
      asked_(std::move(asked)),
      start_(start),
      logprobs_(true, request.given.n_logprobs.value_or(0),
                TokenTexts(model.tokenizer, request.prompts.front().ids.back())) {
  usage_.prompt_tokens = std::ssize(request.prompts.front().ids);
  if (request.answers == nullptr) return;
  usage_.reasoning_tokens = 0;
  reader_.emplace(request.answers->reader());
}

/// What is new in an answer.
OrderedJson OllamaReply::object(const answer::AnswerDelta& delta, OrderedJson calls) const {
  OrderedJson json = object_of(asked_, delta.content);
  OrderedJson& place = asked_.has_message ? json["message"] : json;
  if (!delta.reasoning.empty()) place["thinking"] = delta.reasoning;
  if (!calls.empty()) place["tool_calls"] = std::move(calls);
  return json;
}

/// The calls that have been read to their end since the last time. One that breaks off is not sent: nobody should run
/// it. `result`: of a text that has ended.
OrderedJson OllamaReply::new_calls(const GenerateResult* result) {
  OrderedJson calls = OrderedJson::array();
  if (!reader_) return calls;
  const auto& all = reader_->answer().calls;
  for (; n_calls_ < all.size(); ++n_calls_) {
    const answer::AnswerDelta::Call& call = all[n_calls_];
    const bool may_go_on = result == nullptr && n_calls_ + 1 == all.size();
    if (may_go_on && !call.arguments.ends_with('}')) break;
    std::optional<OrderedJson> input = input_of(call);
    if (!input && may_go_on) break;
    if (!input) continue;
    const std::uint64_t seed = request_.given.seed.value_or(0);
    const std::string id = call.id.empty() ? request_.answers->call_id(seed, 0, call.index) : call.id;
    const OrderedJson function = {{"index", call.index}, {"name", call.name}, {"arguments", std::move(*input)}};
    calls.push_back({{"id", id}, {"function", function}});
  }
  return calls;
}

Json OllamaReply::logprobs_of(std::span<const TokenReport> tokens) {
  for (const TokenReport& token : tokens) logprobs_.add(token);
  return logprobs_.take()["content"];
}

/// Adds what the last object has.
void OllamaReply::finish(const GenerateResult& result, OrderedJson& json) {
  usage_.completion_tokens = std::ssize(result.ids);
  usage_.cached_tokens = result.cached_tokens;
  if (reader_) usage_.reasoning_tokens = request_.answers->n_reasoning(*model_.tokenizer, result.ids);
  json["done"] = true;
  json["done_reason"] = name_of(result.finish_reason);
  if (asked_.returns_context) {
    std::vector<std::int32_t> context = request_.prompts.front().ids;
    context.insert(context.end(), result.ids.begin(), result.ids.end());
    json["context"] = std::move(context);
  }
  const Durations took = durations_of(start_, times_);
  json["total_duration"] = took.total.count();
  json["load_duration"] = took.load.count();
  json["prompt_eval_count"] = usage_.prompt_tokens;
  json["prompt_eval_duration"] = took.prompt.count();
  json["eval_count"] = usage_.completion_tokens;
  json["eval_duration"] = took.text.count();
}

std::string OllamaReply::whole(std::span<const GenerateResult> results) {
  const GenerateResult& result = results.front();
  answer::AnswerDelta answer{.content = result.text};
  if (reader_) {
    reader_->append(result.text);
    reader_->finish();
    answer = reader_->answer();
  }
  OrderedJson json = object(answer, new_calls(&result));
  if (request_.reports_logprobs) json["logprobs"] = logprobs_of(result.logprobs);
  finish(result, json);
  return json_text(json);
}

std::string OllamaReply::events(SequenceStep step) {
  usage_.completion_tokens += std::ssize(step.tokens);
  answer::AnswerDelta delta{.content = std::move(step.text)};
  if (reader_) {
    delta = reader_->append(delta.content);
    if (step.result) {
      const answer::AnswerDelta last = reader_->finish();
      delta.content += last.content;
      delta.reasoning += last.reasoning;
    }
  }
  OrderedJson calls = new_calls(step.result ? &*step.result : nullptr);
  const bool has_logprobs = request_.reports_logprobs && !step.tokens.empty();
  std::string lines;
  if (!delta.content.empty() || !delta.reasoning.empty() || !calls.empty() || has_logprobs) {
    OrderedJson json = object(delta, std::move(calls));
    if (has_logprobs) json["logprobs"] = logprobs_of(step.tokens);
    json["done"] = false;
    lines = json_text(json) + "\n";
  }
  if (!step.result) return lines;
  OrderedJson last = object({}, OrderedJson::array());
  finish(*step.result, last);
  return lines + json_text(last) + "\n";
}

std::string OllamaReply::error_event(const RequestError& error) { return json_text(error_json(error)) + "\n"; }

}  // namespace vitrine::ollama
