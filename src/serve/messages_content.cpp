// The messages of Anthropic's interface, which consist of blocks, as those of OpenAI's chats.
#include <algorithm>

#include "serve/messages_request.h"

namespace vitrine {
namespace {

void append(std::string& text, std::string_view separator, const std::string& more) {
  if (!text.empty() && !more.empty()) text += separator;
  text += more;
}

/// The names that blocks have and that change nothing.
void finish_block(RequestFields& block) {
  block.ignore({"type", "cache_control"});
  block.refuse("citations", "is not supported");
  block.finish();
}

std::string needed_text(RequestFields& fields, std::string_view name) {
  const auto text = fields.text(name);
  if (!text) fields.fail(name, "expected a string, got none");
  return *text;
}

/// What a message says, from all its blocks.
struct Said {
  std::string text{}, reasoning{};
  OrderedJson calls = OrderedJson::array(), results = OrderedJson::array();
};

/// A text, or blocks that are texts.
std::string plain_text_of(const Json& value, const RequestFields& fields, std::string_view name) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) throw wrong_type(fields.name_of(name), "a string or a list of blocks", value);
  std::string text;
  for (std::size_t i = 0; i < value.size(); ++i) {
    RequestFields block = fields.of(value[i], fmt::format("{}[{}]", name, i));
    const std::string type = needed_text(block, "type");
    if (type != "text") {
      block.fail("type", fmt::format("expected \"text\", got \"{}\": the model reads text only", type));
    }
    append(text, "\n", needed_text(block, "text"));
    finish_block(block);
  }
  return text;
}

OrderedJson result_of(RequestFields& block) {
  OrderedJson result = {{"role", "tool"}, {"tool_call_id", needed_text(block, "tool_use_id")}, {"content", ""}};
  if (const Json* const content = block.find("content")) result["content"] = plain_text_of(*content, block, "content");
  block.flag("is_error");
  return result;
}

OrderedJson call_of(RequestFields& block, const OrderedJson& given) {
  const Json* const input = block.find("input");
  if (input == nullptr || !input->is_object()) block.fail("input", "expected an object");
  block.ignore({"caller"});
  // As text, arguments keep their order.
  const OrderedJson function = {{"name", needed_text(block, "name")}, {"arguments", given["input"].dump()}};
  return {{"id", needed_text(block, "id")}, {"type", "function"}, {"function", function}};
}

/// `given` is the same block with the order of its members.
void add_block(RequestFields block, const OrderedJson& given, bool is_user, Said& said) {
  const std::string type = needed_text(block, "type");
  if (type == "text") {
    append(said.text, is_user ? "\n" : "", needed_text(block, "text"));
  } else if (type == "tool_result" && is_user) {
    said.results.push_back(result_of(block));
  } else if (type == "tool_use" && !is_user) {
    said.calls.push_back(call_of(block, given));
  } else if (type == "thinking" && !is_user) {
    append(said.reasoning, "\n", needed_text(block, "thinking"));
    block.ignore({"signature"});
  } else if (type == "redacted_thinking" && !is_user) {
    block.ignore({"data"});
  } else {
    const char* const expected = is_user ? "text or tool_result" : "text, thinking or tool_use";
    block.fail("type", fmt::format("expected {}, got \"{}\", which the model does not read", expected, type));
  }
  finish_block(block);
}

bool read_message(RequestFields message, const OrderedJson& given, Said& said) {
  const std::string role = needed_text(message, "role");
  if (role != "user" && role != "assistant") {
    message.fail("role", fmt::format("expected user or assistant, got \"{}\"", role));
  }
  const bool is_user = role == "user";
  const Json* const content = message.find("content");
  if (content == nullptr) message.fail("content", "expected a string or a list of blocks, got none");
  if (content->is_string()) {
    append(said.text, is_user ? "\n" : "", content->get<std::string>());
  } else if (content->is_array()) {
    for (std::size_t i = 0; i < content->size(); ++i) {
      add_block(message.of((*content)[i], fmt::format("content[{}]", i)), given["content"][i], is_user, said);
    }
  } else {
    throw wrong_type(message.name_of("content"), "a string or a list of blocks", *content);
  }
  message.finish();
  return is_user;
}

/// Results of calls are messages of their own before the text.
void put(bool is_user, Said said, OrderedJson& messages) {
  for (OrderedJson& result : said.results) messages.push_back(std::move(result));
  if (is_user) {
    if (!said.text.empty() || said.results.empty()) messages.push_back({{"role", "user"}, {"content", said.text}});
    return;
  }
  OrderedJson message = {{"role", "assistant"}, {"content", said.text}};
  if (!said.reasoning.empty()) message["reasoning_content"] = said.reasoning;
  if (!said.calls.empty()) {
    if (said.text.empty()) message["content"] = nullptr;
    message["tool_calls"] = std::move(said.calls);
  }
  messages.push_back(std::move(message));
}

}  // namespace

OrderedJson chat_messages_of(RequestFields& fields, const OrderedJson& body) {
  OrderedJson messages = OrderedJson::array();
  if (const Json* const system = fields.find("system")) {
    const std::string text = plain_text_of(*system, fields, "system");
    if (!text.empty()) messages.push_back({{"role", "system"}, {"content", text}});
  }
  const Json* const list = fields.find("messages");
  if (list == nullptr || !list->is_array() || list->empty()) {
    fields.fail("messages", "expected a list of at least one message");
  }
  Said said;
  bool is_user = true;
  for (std::size_t i = 0; i < list->size(); ++i) {
    Said own;
    const bool is_users = read_message(fields.of((*list)[i], fmt::format("messages[{}]", i)), body["messages"][i], own);
    if (i > 0 && is_users != is_user) put(is_user, std::exchange(said, {}), messages);
    is_user = is_users;
    append(said.text, is_user ? "\n" : "", own.text);
    append(said.reasoning, "\n", own.reasoning);
    for (OrderedJson& call : own.calls) said.calls.push_back(std::move(call));
    for (OrderedJson& result : own.results) said.results.push_back(std::move(result));
  }
  if (!is_user && !said.calls.empty()) {
    fields.fail("messages", "expected the results of the last message's calls after it");
  }
  put(is_user, std::move(said), messages);
  return messages;
}

}  // namespace vitrine
