// The items of the Responses interface as the messages of a chat.
#include <algorithm>

#include "serve/doors.h"
#include "serve/responses/request.h"
#include "tokenizer/read/base64.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

/// Puts messages together. What the assistant thinks, says and calls becomes one message, up to what follows it.
class MessageList {
 public:
  void add(OrderedJson message) {
    close();
    messages_.push_back(std::move(message));
  }
  void add_reasoning(std::string_view text) {
    if (!text_.empty() || !calls_.empty()) close();
    append_text(reasoning_, "\n", text);
  }
  void add_answer(std::string text) {
    if (has_text_) close();
    has_text_ = true;
    text_ = std::move(text);
  }
  void add_call(std::string id, std::string name, std::string arguments) {
    OrderedJson function = {{"name", std::move(name)}, {"arguments", std::move(arguments)}};
    calls_.push_back({{"id", std::move(id)}, {"type", "function"}, {"function", std::move(function)}});
  }
  OrderedJson take() {
    close();
    return std::move(messages_);
  }

 private:
  void close() {
    const bool has_call = !calls_.empty();
    if (!has_text_ && !has_call && reasoning_.empty()) return;
    OrderedJson message = {{"role", "assistant"}, {"content", std::move(text_)}};
    if (has_call && !has_text_) message["content"] = nullptr;
    if (!reasoning_.empty()) message["reasoning_content"] = std::move(reasoning_);
    if (has_call) message["tool_calls"] = std::move(calls_);
    messages_.push_back(std::move(message));
    has_text_ = false;
    text_.clear();
    reasoning_.clear();
    calls_ = OrderedJson::array();
  }

  OrderedJson messages_ = OrderedJson::array();
  std::string text_{}, reasoning_{};
  OrderedJson calls_ = OrderedJson::array();
  bool has_text_ = false;
};

/// The names that items have and that change nothing.
void finish_item(RequestFields& item) {
  item.ignore({"type", "id", "status", "phase", "caller", "async", "cache_control"});
  item.finish();
}

/// Joins the texts of parts; `types`: those that it may have.
std::string texts_of_parts(const Json& list, const RequestFields& item, std::string_view name,
                           const std::vector<std::string>& types, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < list.size(); ++i) {
    RequestFields part = item.of(list[i], fmt::format("{}[{}]", name, i));
    const std::string type = part.needed_text("type");
    if (std::ranges::find(types, type) == types.end()) {
      part.fail("type", fmt::format("expected {}, got \"{}\", which the model does not read", types.front(), type));
    }
    append_text(text, separator, part.needed_text(type == "refusal" ? "refusal" : "text"));
    part.ignore({"annotations", "logprobs", "prompt_cache_breakpoint", "cache_control"});
    part.finish();
  }
  return text;
}

/// A text, or parts that are texts.
std::string text_of_field(RequestFields& item, std::string_view name, const std::vector<std::string>& types,
                          std::string_view separator) {
  const Json* const value = item.find(name);
  if (value == nullptr) item.fail(name, "expected a text or a list of parts, got none");
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_array()) throw wrong_type(item.name_of(name), "a text or a list of parts", *value);
  return texts_of_parts(*value, item, name, types, separator);
}

void add_message(RequestFields& item, MessageList& messages) {
  const std::string role = item.needed_text("role");
  if (role == "assistant") {
    messages.add_answer(text_of_field(item, "content", {"output_text", "input_text", "text", "refusal"}, ""));
    return;
  }
  if (role != "user" && role != "system" && role != "developer") {
    item.fail("role", fmt::format("expected user, assistant, system or developer, got \"{}\"", role));
  }
  messages.add(
      {{"role", role}, {"content", text_of_field(item, "content", {"input_text", "output_text", "text"}, "\n")}});
}

/// A call of a function, or of a custom tool, whose text is an argument.
void add_call(RequestFields& item, bool is_custom, MessageList& messages) {
  const std::string name = function_name_of(item.text("namespace").value_or(""), item.needed_text("name"));
  std::string arguments = item.needed_text(is_custom ? "input" : "arguments");
  if (is_custom) arguments = json_text(OrderedJson{{kCustomArgument, arguments}});
  messages.add_call(item.needed_text("call_id"), name, std::move(arguments));
}

void add_output(RequestFields& item, MessageList& messages) {
  const std::string id = item.needed_text("call_id");
  const std::string output = text_of_field(item, "output", {"input_text", "output_text", "text"}, "\n");
  item.ignore({"name", "namespace"});
  messages.add({{"role", "tool"}, {"tool_call_id", id}, {"content", output}});
}

/// Its text, or what a response had as `encrypted_content`; summaries are none of it.
void add_reasoning(RequestFields& item, MessageList& messages) {
  std::string text;
  if (const Json* const content = item.find("content")) {
    if (!content->is_array()) throw wrong_type(item.name_of("content"), "a list of parts", *content);
    text = texts_of_parts(*content, item, "content", {"reasoning_text", "text"}, "\n");
  }
  const std::string encrypted = item.text("encrypted_content").value_or("");
  if (text.empty() && !encrypted.empty()) {
    const auto decoded = decode_padded_base64(encrypted);
    if (!decoded || !is_valid_utf8(*decoded)) {
      item.fail("encrypted_content", "expected what a response of this server had: a text in base64");
    }
    text = *decoded;
  }
  item.ignore({"summary"});
  messages.add_reasoning(text);
}

void add_item(RequestFields item, MessageList& messages) {
  const auto given = item.text("type");
  const std::string type = given.value_or(item.find("role") != nullptr ? "message" : "");
  if (type == "message") {
    add_message(item, messages);
  } else if (type == "function_call" || type == "custom_tool_call") {
    add_call(item, type == "custom_tool_call", messages);
  } else if (type == "function_call_output" || type == "custom_tool_call_output") {
    add_output(item, messages);
  } else if (type == "reasoning") {
    add_reasoning(item, messages);
  } else {
    item.fail("type", fmt::format("expected a message, a call, the output of one or a reasoning, got \"{}\", which "
                                  "the model does not read",
                                  type));
  }
  finish_item(item);
}

}  // namespace

OrderedJson responses_messages_of(RequestFields& fields) {
  MessageList messages;
  const std::string instructions = fields.text("instructions").value_or("");
  if (!instructions.empty()) messages.add({{"role", "system"}, {"content", instructions}});
  const Json* const input = fields.find("input");
  if (input != nullptr && input->is_string()) {
    messages.add({{"role", "user"}, {"content", *input}});
    return messages.take();
  }
  if (input == nullptr || !input->is_array() || input->empty()) {
    fields.fail("input", "expected a text or a list of at least one item");
  }
  for (std::size_t i = 0; i < input->size(); ++i) {
    add_item(fields.of((*input)[i], fmt::format("input[{}]", i)), messages);
  }
  return messages.take();
}

}  // namespace vitrine
