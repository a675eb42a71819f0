#include "answer/history.h"

#include <fmt/format.h>

#include <map>

namespace vitrine::answer {
namespace {

bool is_absent(const OrderedJson& object, const char* name) { return !object.contains(name) || object[name].is_null(); }

std::string text_of(const OrderedJson& object, const char* name) {
  return object.contains(name) && object[name].is_string() ? object[name].get<std::string>() : std::string();
}

/// JSON as Python writes it, with a space after commas and colons.
void write_spaced(const OrderedJson& value, std::string& out) {
  if (!value.is_structured()) {
    out += value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
    return;
  }
  out += value.is_object() ? '{' : '[';
  bool is_first = true;
  for (const auto& [key, member] : value.items()) {
    if (!is_first) out += ", ";
    is_first = false;
    if (value.is_object()) out += OrderedJson(key).dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + ": ";
    write_spaced(member, out);
  }
  out += value.is_object() ? '}' : ']';
}

OrderedJson arguments_as_read(const OrderedJson& function, bool as_text) {
  OrderedJson given = is_absent(function, "arguments") ? OrderedJson("") : function["arguments"];
  if (given.is_string()) {
    const auto& text = given.get_ref<const std::string&>();
    if (as_text) return text.empty() ? OrderedJson("{}") : given;
    OrderedJson parsed = text.empty() ? OrderedJson::object() : OrderedJson::parse(text, nullptr, false);
    return parsed.is_object() ? parsed : OrderedJson{{"arguments", text}};
  }
  if (!as_text) return given.is_object() ? given : OrderedJson{{"arguments", given}};
  std::string text;
  write_spaced(given, text);
  return text;
}

class Reader {
 public:
  explicit Reader(const AnswerFormat& format) : format_(format) {
    if (format.calls) form_ = format.calls->form;
  }

  OrderedJson message(OrderedJson m) {
    const std::string role = text_of(m, "role");
    if (role == "developer" && !format_.knows_developer) m["role"] = "system";
    if (role == "assistant") read_calls(m);
    if (role == "tool" || role == "function") read_result(m, role == "function");
    const bool has_calls = m.contains("tool_calls");
    if (is_absent(m, "content")) {
      if (has_calls && form_.has_null_content) {
        m["content"] = nullptr;
      } else {
        m["content"] = "";
      }
    }
    return m;
  }

 private:
  void read_calls(OrderedJson& m) {
    if (is_absent(m, "tool_calls") && m.contains("function_call") && m["function_call"].is_object()) {
      last_function_ = fmt::format("call_{}", n_functions_++);
      m["tool_calls"] =
          OrderedJson::array({{{"id", last_function_}, {"type", "function"}, {"function", m["function_call"]}}});
    }
    m.erase("function_call");
    if (is_absent(m, "tool_calls") || !m["tool_calls"].is_array() || m["tool_calls"].empty()) {
      m.erase("tool_calls");
      return;
    }
    for (OrderedJson& call : m["tool_calls"]) {
      if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
      if (is_absent(call, "type")) call["type"] = "function";  // this may move the members of the call
      OrderedJson& function = call["function"];
      function["arguments"] = arguments_as_read(function, form_.has_text_arguments);
      if (!is_absent(call, "id")) names_[text_of(call, "id")] = text_of(function, "name");
    }
  }

  void read_result(OrderedJson& m, bool is_function) {
    m["role"] = "tool";
    if (is_function && is_absent(m, "tool_call_id") && !last_function_.empty()) m["tool_call_id"] = last_function_;
    const auto known = names_.find(text_of(m, "tool_call_id"));
    if (is_absent(m, "name") && known != names_.end()) m["name"] = known->second;
  }

  const AnswerFormat& format_;
  MessageForm form_;
  std::map<std::string, std::string> names_;  // of calls, by their ids
  std::string last_function_;
  std::size_t n_functions_ = 0;
};

}  // namespace

OrderedJson history_as_read(const OrderedJson& messages, const AnswerFormat& format) {
  OrderedJson read = OrderedJson::array();
  Reader reader(format);
  for (const OrderedJson& message : messages) read.push_back(message.is_object() ? reader.message(message) : message);
  return read;
}

}  // namespace vitrine::answer
