#include "serve/messages/reply.h"

namespace vitrine {
namespace {

const char* type_of_error(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

Json messages_error(const RequestError& error) {
  return {{"type", "error"}, {"error", {{"type", type_of_error(error.kind().status)}, {"message", error.what()}}}};
}

MessagesReply::MessagesReply(const ServedModel& model, const CompletionRequest& request, const std::string& id)
    : DoorReply(model, request), id_("msg_" + id) {}

OrderedJson MessagesReply::usage_json() const {
  OrderedJson usage = {{"input_tokens", usage_.prompt_tokens - usage_.cached_tokens},
                       {"cache_creation_input_tokens", 0},
                       {"cache_read_input_tokens", usage_.cached_tokens},
                       {"output_tokens", usage_.completion_tokens}};
  if (usage_.reasoning_tokens) usage["output_tokens_details"] = {{"thinking_tokens", *usage_.reasoning_tokens}};
  return usage;
}

OrderedJson MessagesReply::message(OrderedJson content) const {
  return {{"id", id_},
          {"type", "message"},
          {"role", "assistant"},
          {"model", request_.model},
          {"content", std::move(content)},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr},
          {"usage", usage_json()}};
}

OrderedJson MessagesReply::call_block(const answer::AnswerDelta::Call& call, OrderedJson input) const {
  return {{"type", "tool_use"}, {"id", call_id(call)}, {"name", call.name}, {"input", std::move(input)}};
}

void MessagesReply::add_reason(const GenerateResult& result, bool has_calls, OrderedJson& json) const {
  const bool is_cut = result.finish_reason == FinishReason::length;
  json["stop_reason"] = is_cut               ? "max_tokens"
                        : result.stop_string ? "stop_sequence"
                        : has_calls          ? "tool_use"
                                             : "end_turn";
  json["stop_sequence"] = result.stop_string ? OrderedJson(*result.stop_string) : OrderedJson();
}

/// A call that breaks off is left out: nobody should run it.
std::string MessagesReply::whole(std::span<const GenerateResult> results) {
  const GenerateResult& result = results.front();
  count(result);
  const answer::AnswerDelta answer = whole_answer(result.text);
  OrderedJson content = OrderedJson::array();
  if (!answer.reasoning.empty()) {
    content.push_back({{"type", "thinking"}, {"thinking", answer.reasoning}, {"signature", ""}});
  }
  if (!answer.content.empty()) content.push_back({{"type", "text"}, {"text", answer.content}});
  bool has_calls = false;
  for (const auto& call : answer.calls) {
    std::optional<OrderedJson> input = input_of(call);
    if (!input) continue;
    has_calls = true;
    content.push_back(call_block(call, std::move(*input)));
  }
  OrderedJson whole = message(std::move(content));
  add_reason(result, has_calls, whole);
  return json_text(whole);
}

std::string MessagesReply::begin() {
  if (std::exchange(has_begun_, true)) return "";
  const OrderedJson start = {{"type", "message_start"}, {"message", message(OrderedJson::array())}};
  const OrderedJson ping = {{"type", "ping"}};
  return named_event(start) + named_event(ping);
}

std::string MessagesReply::open(Block kind, OrderedJson block) {
  std::string events = close();
  block_ = kind;
  const OrderedJson start = {
      {"type", "content_block_start"}, {"index", n_blocks_++}, {"content_block", std::move(block)}};
  return events + named_event(start);
}

std::string MessagesReply::close() {
  if (std::exchange(block_, Block::none) == Block::none) return "";
  return named_event({{"type", "content_block_stop"}, {"index", n_blocks_ - 1}});
}

std::string MessagesReply::piece(OrderedJson delta) const {
  return named_event({{"type", "content_block_delta"}, {"index", n_blocks_ - 1}, {"delta", std::move(delta)}});
}

std::string MessagesReply::piece(Block kind, const std::string& text) {
  if (text.empty()) return "";
  const bool thinks = kind == Block::thinking;
  std::string events;
  if (block_ != kind) {
    events = open(kind, thinks ? OrderedJson{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}
                               : OrderedJson{{"type", "text"}, {"text", ""}});
  }
  return events + piece(thinks ? OrderedJson{{"type", "thinking_delta"}, {"thinking", text}}
                               : OrderedJson{{"type", "text_delta"}, {"text", text}});
}

std::string MessagesReply::call_piece(const answer::AnswerDelta::Call& call) {
  std::string events;
  if (call.begins) events = open(Block::call, call_block(call, OrderedJson::object()));
  if (call.arguments.empty()) return events;
  return events + piece(OrderedJson{{"type", "input_json_delta"}, {"partial_json", call.arguments}});
}

/// What goes on with the open call comes before what begins a block.
std::string MessagesReply::pieces(const answer::AnswerDelta& delta) {
  std::string events;
  for (const auto& call : delta.calls) {
    if (!call.begins) events += call_piece(call);
  }
  events += piece(Block::thinking, delta.reasoning);
  events += piece(Block::text, delta.content);
  for (const auto& call : delta.calls) {
    if (call.begins) events += call_piece(call);
  }
  return events;
}

std::string MessagesReply::end(const GenerateResult& result) {
  count(result);
  OrderedJson delta = OrderedJson::object();
  add_reason(result, has_calls(), delta);
  const OrderedJson last = {{"type", "message_delta"}, {"delta", std::move(delta)}, {"usage", usage_json()}};
  const OrderedJson stop = {{"type", "message_stop"}};
  return close() + named_event(last) + named_event(stop);
}

std::string MessagesReply::events(SequenceStep step) {
  if (step.tokens.empty() && !step.result) return "";
  usage_.completion_tokens += std::ssize(step.tokens);
  std::string events = begin();
  events += pieces(append(step.text));
  if (step.result) events += pieces(finish());
  return step.result ? events + end(*step.result) : events;
}

std::string MessagesReply::error_event(const RequestError& error) {
  return "event: error\ndata: " + json_text(messages_error(error)) + "\n\n";
}

}  // namespace vitrine
