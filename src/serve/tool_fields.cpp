#include "serve/tool_fields.h"

#include <algorithm>
#include <set>
#include <vector>

#include "answer/tools.h"
#include "base/nearest.h"

namespace vitrine {
namespace {

using Calls = answer::AnswerRules::Calls;

constexpr std::size_t kMaxTools = 1024, kMaxName = 256;

void check_function(RequestFields fields, std::set<std::string>& names) {
  const auto name = fields.text("name");
  if (!name || name->empty() || name->size() > kMaxName) {
    fields.fail("name", fmt::format("expected a text of 1 to {} bytes", kMaxName));
  }
  if (!names.insert(*name).second) fields.fail("name", fmt::format("there are two tools \"{}\"", *name));
  fields.text("description");
  fields.flag("strict");
  const Json* const parameters = fields.find("parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    throw wrong_type(fields.name_of("parameters"), "a JSON Schema", *parameters);
  }
  fields.finish();
}

/// Checks the list `name`, whose elements are functions, or tools that are functions.
void check_list(const Json& list, const RequestFields& fields, std::string_view name, bool is_legacy) {
  if (!list.is_array()) throw wrong_type(fields.name_of(name), "a list", list);
  if (list.size() > kMaxTools) fields.fail(name, fmt::format("expected at most {} tools", kMaxTools));
  std::set<std::string> names;
  for (std::size_t i = 0; i < list.size(); ++i) {
    RequestFields tool = fields.of(list[i], fmt::format("{}[{}]", name, i));
    if (is_legacy) {
      check_function(tool, names);
      continue;
    }
    const std::string type = tool.text("type").value_or("function");
    if (type != "function") tool.fail("type", fmt::format("expected \"function\", got \"{}\"", type));
    const Json* const function = tool.find("function");
    if (function == nullptr) tool.fail("function", "expected an object, got none");
    check_function(tool.of(*function, "function"), names);
    tool.ignore({"strict", "cache_control"});
    tool.finish();
  }
}

/// Leaves only the tools of these names that may be called.
void keep(const std::vector<std::string>& names, const RequestFields& fields, std::string_view field,
          OrderedJson& tools) {
  std::vector<std::string> known;
  OrderedJson kept = OrderedJson::array();
  for (const OrderedJson& tool : tools) {
    known.push_back(answer::declared_tools(OrderedJson::array({tool})).front().name);
    if (std::ranges::find(names, known.back()) != names.end()) kept.push_back(tool);
  }
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    fields.fail(field, fmt::format("there is no tool \"{}\"{}", name, did_you_mean(name, known)));
  }
  tools = std::move(kept);
}

/// The name of `{"type": "function", "function": {"name"}}`, or of `{"type": "function", "name"}`.
std::string name_of_tool(RequestFields fields) {
  const std::string type = fields.text("type").value_or("function");
  if (type != "function") fields.fail("type", fmt::format("expected \"function\", got \"{}\"", type));
  const Json* const function = fields.find("function");
  auto name = fields.text("name");
  if (function != nullptr) {
    RequestFields own = fields.of(*function, "function");
    name = own.text("name");
    own.finish();
  }
  if (!name) fields.fail("function", "expected an object with a name");
  fields.finish();
  return *name;
}

Calls calls_of(const std::string& mode, const RequestFields& fields, std::string_view name) {
  if (mode == "none") return Calls::none;
  if (mode == "auto") return Calls::may;
  if (mode == "required" || mode == "any") return Calls::must;
  fields.fail(name, fmt::format("expected none, auto, required or a tool, got \"{}\"", mode));
}

void read_allowed(RequestFields fields, RequestedTools& tools) {
  tools.rules.calls = calls_of(fields.text("mode").value_or("auto"), fields, "mode");
  const Json* const list = fields.find("tools");
  if (list == nullptr || !list->is_array()) fields.fail("tools", "expected a list of tools");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < list->size(); ++i) {
    names.push_back(name_of_tool(fields.of((*list)[i], fmt::format("tools[{}]", i))));
  }
  keep(names, fields, "tools", tools.rules.tools);
  fields.finish();
}

void read_choice(RequestFields& fields, std::string_view name, RequestedTools& tools) {
  const Json* const choice = fields.find(name);
  if (choice == nullptr) return;
  if (choice->is_string()) {
    tools.rules.calls = calls_of(choice->get<std::string>(), fields, name);
    return;
  }
  RequestFields own = fields.of(*choice, name);
  if (!tools.is_legacy && own.text("type") == "allowed_tools") {
    const Json* const allowed = own.find("allowed_tools");
    if (allowed == nullptr) return read_allowed(own, tools);  // without the object around mode and tools
    read_allowed(own.of(*allowed, "allowed_tools"), tools);
    return own.finish();
  }
  tools.rules.calls = Calls::must;
  keep({name_of_tool(own)}, fields, name, tools.rules.tools);
}

}  // namespace

RequestedTools read_tools(std::string_view body, RequestFields& fields) {
  RequestedTools tools;
  const Json* list = fields.find("tools");
  const Json* const functions = fields.find("functions");
  const auto is_given = [](const Json* given) { return given != nullptr && !(given->is_array() && given->empty()); };
  tools.is_legacy = !is_given(list) && is_given(functions);
  const char* const name = tools.is_legacy ? "functions" : "tools";
  if (tools.is_legacy) list = functions;
  tools.rules.may_have_several = fields.flag("parallel_tool_calls").value_or(true) && !tools.is_legacy;
  if (is_given(list)) {
    check_list(*list, fields, name, tools.is_legacy);
    tools.shown = OrderedJson::array();
    OrderedJson given = OrderedJson::parse(body)[name];
    for (OrderedJson& tool : given) {
      if (tools.is_legacy) tool = {{"type", "function"}, {"function", OrderedJson(tool)}};
      if (!tool.contains("type")) tool["type"] = "function";
      tools.shown.push_back(std::move(tool));
    }
    tools.rules.tools = tools.shown;
    tools.rules.calls = Calls::may;
  }
  read_choice(fields, tools.is_legacy ? "function_call" : "tool_choice", tools);
  fields.ignore({"tool_choice", "function_call"});
  if (!is_given(list)) {
    if (tools.rules.calls == Calls::must) fields.fail("tool_choice", "expected tools with it");
    tools.rules.calls = Calls::none;
  }
  return tools;
}

}  // namespace vitrine
