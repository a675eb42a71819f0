#include "vitrine/chat_reader.h"

#include "base/error.h"
#include "template/chat_template.h"

namespace vitrine {

ChatFormat format_of(const Chat& chat, const ChatTemplates& templates, const Tokenizer& tokenizer,
                     std::string_view where) {
  if (templates.by_name.empty()) {
    throw BadInput(where, "the model has no chat template; open it with one (OpenOptions::chat_template)");
  }
  ChatVariables variables;
  if (!chat.now.empty()) variables.now = TemplateClock::parse(chat.now);
  for (const auto& [name, json] : chat.variables) {
    variables.by_name.emplace_back(name, TemplateData::parse(json, name));
  }
  return {templates, tokenizer, std::move(variables), where};
}

ChatHistory history_of(const Chat& chat) {
  OrderedJson messages = OrderedJson::array();
  for (const ChatMessage& given : chat.messages) {
    OrderedJson message = {{"role", given.role}, {"content", given.content}};
    if (!given.fields.empty()) {
      const OrderedJson fields = parse_ordered_json(given.fields, "fields");
      if (!fields.is_object()) throw BadInput("fields", "expected a JSON object, got {}", fields.type_name());
      message.update(fields);
    }
    messages.push_back(std::move(message));
  }
  ChatHistory history =
      ChatHistory::parse(messages.dump(-1, ' ', false, OrderedJson::error_handler_t::replace), "chat");
  if (!chat.tools.empty()) history.set_tools(parse_ordered_json(chat.tools, "tools"));
  return history;
}

}  // namespace vitrine
