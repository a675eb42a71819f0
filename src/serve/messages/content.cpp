// The messages of Anthropic's interface, which consist of blocks, as those of OpenAI's chats.
#include <algorithm>

#include "serve/messages/request.h"

namespace vitrine {
namespace {

void append(std::string& text, std::string_view separator, const std::string& more) {
  if (!text.empty() && !more.empty()) text += separator;
  text += more;
}

/// The names that blocks have and that change nothing.
void finish_block(RequestFields& block) {
  block.ignore({"type", "cache_control", "toolset_name"});
  block.refuse("citations", "is not supported");
  block.finish();
}

/// What a message says, from all its blocks.
struct Said {
  std::string role{};
  std::string text{}, reasoning{};
  OrderedJson calls = OrderedJson::array(), results = OrderedJson::array();

  bool is_answer() const { return role == "assistant"; }
  /// Between two texts.
  const char* separator() const { return is_answer() ? "" : "\n"; }
};

/// A text, or blocks that are texts.
std::string plain_text_of(const Json& value, const RequestFields& fields, std::string_view name) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) throw wrong_type(fields.name_of(name), "a string or a list of blocks", value);
  std::string text;
  for (std::size_t i = 0; i < value.size(); ++i) {
    RequestFields block = fields.of(value[i], fmt::format("{}[{}]", name, i));
    const std::string type = block.needed_text("type");
    if (type != "text") {
      block.fail("type", fmt::format("expected \"text\", got \"{}\": the model reads text only", type));
    }
    append(text, "\n", block.needed_text("text"));
    finish_block(block);
  }
  return text;
}

OrderedJson result_of(RequestFields& block) {
  OrderedJson result = {{"role", "tool"}, {"tool_call_id", block.needed_text("tool_use_id")}, {"content", ""}};
  if (const Json* const content = block.find("content")) result["content"] = plain_text_of(*content, block, "content");
  block.flag("is_error");
  return result;
}

OrderedJson call_of(RequestFields& block, const OrderedJson& given) {
  const Json* const input = block.find("input");
  if (input == nullptr || !input->is_object()) block.fail("input", "expected an object");
  block.ignore({"caller"});
  // As text, arguments keep their order.
  const OrderedJson function = {{"name", block.needed_text("name")}, {"arguments", given["input"].dump()}};
  return {{"id", block.needed_text("id")}, {"type", "function"}, {"function", function}};
}

/// `given` is the same block with the order of its members.
void add_block(RequestFields block, const OrderedJson& given, Said& said) {
  const std::string type = block.needed_text("type");
  if (type == "text") {
    append(said.text, said.separator(), block.needed_text("text"));
  } else if (type == "tool_result" && said.role == "user") {
    said.results.push_back(result_of(block));
  } else if (type == "tool_use" && said.is_answer()) {
    said.calls.push_back(call_of(block, given));
  } else if (type == "thinking" && said.is_answer()) {
    append(said.reasoning, "\n", block.needed_text("thinking"));
    block.ignore({"signature"});
  } else if (type == "redacted_thinking" && said.is_answer()) {
    block.ignore({"data"});
  } else {
    const char* const expected = said.is_answer()      ? "text, thinking or tool_use"
                                 : said.role == "user" ? "text or tool_result"
                                                       : "text";
    block.fail("type", fmt::format("expected {}, got \"{}\", which the model does not read", expected, type));
  }
  finish_block(block);
}

Said read_message(RequestFields message, const OrderedJson& given) {
  Said said{.role = message.needed_text("role")};
  if (said.role != "user" && said.role != "system" && !said.is_answer()) {
    message.fail("role", fmt::format("expected user, assistant or system, got \"{}\"", said.role));
  }
  const Json* const content = message.find("content");
  if (content == nullptr) message.fail("content", "expected a string or a list of blocks, got none");
  if (content->is_string()) {
    said.text = content->get<std::string>();
  } else if (content->is_array()) {
    for (std::size_t i = 0; i < content->size(); ++i) {
      add_block(message.of((*content)[i], fmt::format("content[{}]", i)), given["content"][i], said);
    }
  } else {
    throw wrong_type(message.name_of("content"), "a string or a list of blocks", *content);
  }
  message.finish();
  return said;
}

/// Results of calls are messages of their own before the text.
void put(Said said, OrderedJson& messages) {
  for (OrderedJson& result : said.results) messages.push_back(std::move(result));
  if (!said.is_answer()) {
    if (!said.text.empty() || said.results.empty()) messages.push_back({{"role", said.role}, {"content", said.text}});
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
  for (std::size_t i = 0; i < list->size(); ++i) {
    Said own = read_message(fields.of((*list)[i], fmt::format("messages[{}]", i)), body["messages"][i]);
    if (own.role != said.role) {
      if (i > 0) put(std::move(said), messages);
      said = std::move(own);
      continue;
    }
    append(said.text, said.separator(), own.text);
    append(said.reasoning, "\n", own.reasoning);
    for (OrderedJson& call : own.calls) said.calls.push_back(std::move(call));
    for (OrderedJson& result : own.results) said.results.push_back(std::move(result));
  }
  if (!said.calls.empty()) fields.fail("messages", "expected the results of the last message's calls after it");
  put(std::move(said), messages);
  return messages;
}

}  // namespace vitrine
