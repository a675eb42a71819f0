// The messages of Ollama's interface as those of OpenAI's chats.
#include <algorithm>

#include "serve/ollama/request.h"

namespace vitrine::ollama {
namespace {

/// A call that has no result yet.
struct OpenCall {
  std::string name, id;
};

class Conversation {
 public:
  OrderedJson message(RequestFields fields, const OrderedJson& given) {
    OrderedJson message = {{"role", fields.needed_text("role")}};
    message["content"] = fields.text("content").value_or("");
    if (const auto thinking = fields.text("thinking")) message["reasoning_content"] = *thinking;
    if (const Json* const calls = fields.find("tool_calls"); calls != nullptr && !calls->empty()) {
      if (!calls->is_array()) throw wrong_type(fields.name_of("tool_calls"), "a list of calls", *calls);
      for (std::size_t i = 0; i < calls->size(); ++i) {
        const RequestFields call = fields.of((*calls)[i], fmt::format("tool_calls[{}]", i));
        message["tool_calls"].push_back(this->call(call, given["tool_calls"][i]));
      }
    }
    const auto other = fields.text("name"), id = fields.text("tool_call_id");  // as OpenAI's clients write it
    auto name = fields.text("tool_name");
    if (!name) name = other;
    if (message["role"] == "tool") {
      if (const std::string own = id_of_result(id, name); !own.empty()) message["tool_call_id"] = own;
      if (name) message["name"] = *name;
    }
    fields.refuse("images", "the model reads text only");
    fields.finish();
    return message;
  }

 private:
  OrderedJson call(RequestFields fields, const OrderedJson& given) {
    const Json* const value = fields.find("function");
    if (value == nullptr) fields.fail("function", "expected an object, got none");
    RequestFields function = fields.of(*value, "function");
    const std::string name = function.needed_text("name");
    OrderedJson own = {{"name", name}};
    if (const Json* const arguments = function.find("arguments")) {
      if (!arguments->is_object() && !arguments->is_string()) {
        throw wrong_type(function.name_of("arguments"), "an object", *arguments);
      }
      const OrderedJson& inner = given["function"]["arguments"];
      own["arguments"] = inner.is_string() ? inner : OrderedJson(json_text(inner));  // as text, they keep their order
    }
    function.ignore({"index", "description"});
    function.finish();
    // Nine letters and digits, which some templates demand.
    const std::string id = fields.text("id").value_or(fmt::format("call{:05}", n_calls_));
    ++n_calls_;
    open_.push_back({name, id});
    fields.ignore({"type"});
    fields.finish();
    return {{"id", id}, {"type", "function"}, {"function", std::move(own)}};
  }

  std::string id_of_result(const std::optional<std::string>& id, const std::optional<std::string>& name) {
    auto at =
        std::ranges::find_if(open_, [&](const OpenCall& call) { return id ? call.id == *id : call.name == name; });
    if (at == open_.end() && !id && !open_.empty()) at = open_.begin();
    if (at == open_.end()) return id.value_or("");
    std::string own = at->id;
    open_.erase(at);
    return own;
  }

  std::vector<OpenCall> open_;
  std::size_t n_calls_ = 0;
};

}  // namespace

OrderedJson messages_of(RequestFields& fields, const OrderedJson& body) {
  OrderedJson messages = OrderedJson::array();
  const Json* const list = fields.find("messages");
  if (list == nullptr) return messages;
  if (!list->is_array()) throw wrong_type("messages", "a list of messages", *list);
  Conversation conversation;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const RequestFields message = fields.of((*list)[i], fmt::format("messages[{}]", i));
    messages.push_back(conversation.message(message, body["messages"][i]));
  }
  return messages;
}

}  // namespace vitrine::ollama
