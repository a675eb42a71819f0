#include "serve/responses/reply.h"

#include <algorithm>
#include <ctime>

#include "tokenizer/read/base64.h"
#include "tokenizer/utf8.h"

namespace vitrine {

/// The names that belong to a kind of item.
struct ResponsesReply::Kind {
  const char* type;
  const char* prefix;      // of ids
  const char* text_event;  // before ".delta" and ".done"
  const char* field;       // of the text in the last of these, and in an item without parts
  const char* part_type;
};

const ResponsesReply::Kind& ResponsesReply::kind_of(Item item) {
  static const Kind kinds[] = {
      {"", "", "", "", ""},
      {"reasoning", "rs_", "response.reasoning_text", "text", "reasoning_text"},
      {"message", "msg_", "response.output_text", "text", "output_text"},
      {"function_call", "fc_", "response.function_call_arguments", "arguments", ""},
      {"custom_tool_call", "ctc_", "response.custom_tool_call_input", "input", ""},
  };
  return kinds[static_cast<std::size_t>(item)];
}

void TokensOfText::add(const Json& token, std::string_view bytes) {
  OrderedJson own = {{"token", token["token"]}, {"logprob", token["logprob"]}, {"bytes", token["bytes"]}};
  own["top_logprobs"] = token["top_logprobs"];
  if (token.contains("removed")) own["removed"] = token["removed"];
  const auto no_null = [](OrderedJson& entry) {
    if (entry["bytes"].is_null()) entry["bytes"] = OrderedJson::array();
  };
  no_null(own);
  for (OrderedJson& other : own["top_logprobs"]) no_null(other);
  entries_.push_back({std::move(own), text_.size(), text_.size() + bytes.size()});
  text_ += bytes;
}

OrderedJson TokensOfText::take(std::string_view part) {
  OrderedJson taken = OrderedJson::array();
  const std::size_t at = text_.starts_with(part) ? 0 : text_.rfind(part);  // after marks, which are in no part
  if (at == std::string::npos) return taken;
  const std::size_t end = at + part.size();
  std::vector<Entry> later;
  for (Entry& entry : entries_) {
    if (entry.begin >= end) {
      later.push_back({std::move(entry.token), entry.begin - end, entry.end - end});
    } else if (entry.end > at) {
      taken.push_back(std::move(entry.token));
    }
  }
  entries_ = std::move(later);
  text_.erase(0, end);
  return taken;
}

ResponsesReply::ResponsesReply(const ServedModel& model, const CompletionRequest& request, ResponsesRequest asked,
                               const std::string& id, std::int64_t created)
    : DoorReply(model, request),
      asked_(std::move(asked)),
      id_(id),
      logprobs_(true, request.given.n_logprobs.value_or(0),
                TokenTexts(model.tokenizer, request.prompts.front().ids.back())),
      token_texts_(model.tokenizer, request.prompts.front().ids.back()) {
  const SamplingConfig sampling = request.sequence(0, model.defaults).sampling;
  response_ = {{"id", "resp_" + id},
               {"object", "response"},
               {"created_at", created},
               {"status", "in_progress"},
               {"background", false},
               {"completed_at", nullptr},
               {"error", nullptr},
               {"incomplete_details", nullptr},
               {"model", request.model},
               {"output", OrderedJson::array()},
               {"previous_response_id", nullptr},
               {"service_tier", "default"},
               {"store", false},
               {"temperature", sampling.temperature},
               {"top_p", sampling.top_p},
               {"truncation", "disabled"},
               {"usage", nullptr}};
  response_.update(asked_.repeated);
  const std::vector<std::string>& unavailable = asked_.tools.unavailable;
  if (!unavailable.empty()) response_["vitrine"] = {{"unavailable_tools", unavailable}};
}

OrderedJson ResponsesReply::usage_json() const {
  return {{"input_tokens", usage_.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage_.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage_.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage_.reasoning_tokens.value_or(0)}}},
          {"total_tokens", usage_.prompt_tokens + usage_.completion_tokens}};
}

std::string ResponsesReply::event(std::string_view type, OrderedJson members) {
  OrderedJson json = {{"type", type}, {"sequence_number", n_events_++}};
  for (auto& [name, value] : members.items()) json[name] = std::move(value);
  return named_event(json);
}

/// Of the last item.
std::string ResponsesReply::item_event(std::string_view type, OrderedJson members) {
  OrderedJson json = {{"item_id", item()["id"]}, {"output_index", output().size() - 1}};
  json.update(members);
  return event(type, std::move(json));
}

std::string ResponsesReply::part_event(std::string_view type, OrderedJson members) {
  if (has_parts()) members["content_index"] = 0;
  return item_event(type, std::move(members));
}

std::string ResponsesReply::state_event(std::string_view type) { return event(type, {{"response", response_}}); }

std::string ResponsesReply::begin() {
  if (std::exchange(has_begun_, true)) return "";
  const std::string created = state_event("response.created");
  return created + state_event("response.in_progress");
}

/// The part of the open item, with its text so far.
OrderedJson ResponsesReply::part() const {
  OrderedJson part = {{"type", kind_of(open_).part_type}, {"text", text_}};
  if (open_ != Item::message) return part;
  part["annotations"] = OrderedJson::array();
  part["logprobs"] = token_list_;
  return part;
}

/// `members`: between the item's type and its text.
std::string ResponsesReply::open(Item kind, OrderedJson members) {
  std::string events = close(false);
  open_ = kind;
  text_.clear();
  token_list_ = OrderedJson::array();
  const Kind& own = kind_of(kind);
  OrderedJson item = {{"id", fmt::format("{}{}_{}", own.prefix, id_, output().size())}, {"type", own.type}};
  item["status"] = "in_progress";
  item.update(members);
  if (has_parts()) {
    item["content"] = OrderedJson::array();
  } else {
    item[own.field] = "";
  }
  output().push_back(std::move(item));
  const OrderedJson added = {{"output_index", output().size() - 1}, {"item", this->item()}};
  events += event("response.output_item.added", added);
  return has_parts() ? events + part_event("response.content_part.added", {{"part", part()}}) : events;
}

/// Ends the open item. `is_cut`: with the text of the answer, at the limit of tokens.
std::string ResponsesReply::close(bool is_cut) {
  if (open_ == Item::none) return "";
  const Kind& own = kind_of(open_);
  OrderedJson& item = this->item();
  bool is_complete = !is_cut;
  if (open_ == Item::function) is_complete = OrderedJson::accept(text_);
  if (open_ == Item::custom) is_complete = input_.is_complete();
  item["status"] = is_complete ? "completed" : "incomplete";
  OrderedJson done = {{own.field, text_}};
  if (open_ == Item::message) done["logprobs"] = token_list_;
  if (open_ == Item::function) done["name"] = item["name"];
  std::string events = part_event(std::string(own.text_event) + ".done", std::move(done));
  if (has_parts()) {
    item["content"].push_back(part());
    events += part_event("response.content_part.done", {{"part", part()}});
  } else {
    item[own.field] = text_;
  }
  if (open_ == Item::reasoning && asked_.encrypts) {
    const std::string shown = OrderedJson::parse(json_text(OrderedJson(text_)));  // as clients read the text
    item["encrypted_content"] = encode_base64({reinterpret_cast<const unsigned char*>(shown.data()), shown.size()});
  }
  open_ = Item::none;
  const OrderedJson ended = {{"output_index", output().size() - 1}, {"item", item}};
  return events + event("response.output_item.done", ended);
}

/// What goes on with the text of the open item.
std::string ResponsesReply::piece(std::string_view text) {
  if (text.empty()) return "";
  text_ += text;
  OrderedJson members = {{"delta", text}};
  OrderedJson tokens = request_.reports_logprobs ? tokens_.take(text) : OrderedJson::array();
  if (open_ == Item::message) {
    token_list_.insert(token_list_.end(), tokens.begin(), tokens.end());
    members["logprobs"] = std::move(tokens);
  }
  return part_event(std::string(kind_of(open_).text_event) + ".delta", std::move(members));
}

std::string ResponsesReply::text_piece(Item kind, const std::string& text) {
  if (text.empty()) return "";
  if (open_ == kind) return piece(text);
  std::string events = open(kind, kind == Item::reasoning ? OrderedJson{{"summary", OrderedJson::array()}}
                                                          : OrderedJson{{"role", "assistant"}});
  return events + piece(text);
}

std::string ResponsesReply::call_piece(const answer::AnswerDelta::Call& call) {
  std::string events;
  if (call.begins) {
    const auto at = asked_.tools.by_name.find(call.name);
    const ResponsesTool tool = at != asked_.tools.by_name.end() ? at->second : ResponsesTool{.name = call.name};
    OrderedJson members = {{"call_id", call_id(call)}, {"name", tool.name}};
    if (!tool.space.empty()) members["namespace"] = tool.space;
    events = open(tool.is_custom ? Item::custom : Item::function, std::move(members));
    input_ = {};
  }
  return events + piece(open_ == Item::custom ? input_.append(call.arguments) : call.arguments);
}

/// What goes on with the open call comes before what begins an item.
std::string ResponsesReply::pieces(const answer::AnswerDelta& delta) {
  std::string events;
  for (const auto& call : delta.calls) {
    if (!call.begins) events += call_piece(call);
  }
  events += text_piece(Item::reasoning, delta.reasoning);
  events += text_piece(Item::message, delta.content);
  for (const auto& call : delta.calls) {
    if (call.begins) events += call_piece(call);
  }
  return events;
}

/// An answer that has ended without a call has a message, which may be empty.
std::string ResponsesReply::end(const GenerateResult& result) {
  count(result);
  const bool is_cut = result.finish_reason == FinishReason::length;
  std::string events;
  const bool has_answer = std::ranges::any_of(output(), [](const auto& item) { return item["type"] != "reasoning"; });
  if (!has_answer && !is_cut) events += open(Item::message, {{"role", "assistant"}});
  events += close(is_cut);
  response_["status"] = is_cut ? "incomplete" : "completed";
  if (is_cut) response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
  if (!is_cut) response_["completed_at"] = std::time(nullptr);
  response_["usage"] = usage_json();
  return events + state_event(is_cut ? "response.incomplete" : "response.completed");
}

/// Returns the bytes that it adds to the text.
std::string ResponsesReply::add_token(const TokenReport& token) {
  const TokenText text = token_texts_.next(token.id);
  token_texts_.advance(token.id);
  const bool is_shown = text.bytes || request_.shows_special ||
                        (request_.answers != nullptr && std::ranges::count(request_.answers->shown, token.id) > 0);
  std::string bytes = is_shown ? text.bytes.value_or(text.text) : "";
  logprobs_.add(token);
  tokens_.add(logprobs_.take()["content"].front(), bytes);
  return bytes;
}

/// A text token by token, so that its parts know their tokens.
std::string ResponsesReply::add_whole(const GenerateResult& result) {
  std::string events;
  std::string_view rest = result.text;
  std::size_t n_bytes = 0;  // of `rest`, of the tokens so far
  for (const TokenReport& token : result.logprobs) {
    n_bytes += add_token(token).size();
    const std::string_view piece = rest.substr(0, whole_prefix(rest.substr(0, n_bytes)));
    rest.remove_prefix(piece.size());
    n_bytes -= piece.size();
    events += pieces(append(piece));
  }
  events += pieces(append(rest));
  return events + pieces(finish());
}

std::string ResponsesReply::whole(std::span<const GenerateResult> results) {
  const GenerateResult& result = results.front();
  if (request_.reports_logprobs) {
    add_whole(result);
  } else {
    pieces(append(result.text));
    pieces(finish());
  }
  end(result);
  return json_text(response_);
}

std::string ResponsesReply::events(SequenceStep step) {
  if (step.tokens.empty() && !step.result) return "";
  usage_.completion_tokens += std::ssize(step.tokens);
  std::string events = begin();
  if (request_.reports_logprobs) {
    for (const TokenReport& token : step.tokens) add_token(token);
  }
  events += pieces(append(step.text));
  if (!step.result) return events;
  events += pieces(finish());
  return events + end(*step.result);
}

std::string ResponsesReply::error_event(const RequestError& error) {
  const Json json = error.to_json()["error"];
  std::string events = begin();
  events += event("error", {{"code", json["code"].is_null() ? json["type"] : json["code"]},
                            {"message", json["message"]},
                            {"param", json["param"]}});
  response_["status"] = "failed";
  response_["error"] = {{"code", "server_error"}, {"message", json["message"]}};
  return events + state_event("response.failed");
}

}  // namespace vitrine
