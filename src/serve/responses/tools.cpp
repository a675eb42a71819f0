#include "serve/responses/tools.h"

#include <algorithm>

#include "base/nearest.h"
#include "serve/doors.h"

namespace vitrine {
namespace {

/// The types of tools that OpenAI's servers run, or that need a client of their own.
const std::vector<std::string> kHosted = {"web_search",         "web_search_2025_08_26",
                                          "web_search_preview", "web_search_preview_2025_03_11",
                                          "file_search",        "code_interpreter",
                                          "image_generation",   "computer",
                                          "computer_use",       "computer_use_preview",
                                          "local_shell",        "shell",
                                          "apply_patch",        "mcp",
                                          "tool_search",        "programmatic_tool_calling"};

bool is_hosted(const std::string& type) { return std::ranges::find(kHosted, type) != kHosted.end(); }

/// A namespace, and what it says to the model.
struct Space {
  std::string name{}, description{};
};

/// A regex that is the whole text, as a pattern, which is found anywhere in one.
std::string whole_pattern(std::string regex) {
  const bool has_branches = regex.find('|') != std::string::npos;
  if (!has_branches && regex.starts_with('^')) regex.erase(0, 1);
  const std::size_t n_before_end = regex.empty() ? 0 : regex.size() - 1;
  const std::size_t last = regex.substr(0, n_before_end).find_last_not_of('\\');
  const std::size_t n_backslashes = last == std::string::npos ? n_before_end : n_before_end - last - 1;
  if (!has_branches && regex.ends_with('$') && n_backslashes % 2 == 0) regex.pop_back();
  return "^(?:" + regex + ")$";
}

/// The schema of the only argument of a custom tool.
OrderedJson custom_parameters(RequestFields& tool) {
  OrderedJson input = {{"type", "string"}};
  if (const Json* const value = tool.find("format")) {
    RequestFields format = tool.of(*value, "format");
    const std::string type = format.needed_text("type");
    if (type == "grammar") {
      const std::string syntax = format.needed_text("syntax");
      if (syntax != "regex") format.fail("syntax", fmt::format("expected \"regex\", got \"{}\"", syntax));
      input["pattern"] = whole_pattern(format.needed_text("definition"));
    } else if (type != "text") {
      format.fail("type", fmt::format("expected text or grammar, got \"{}\"", type));
    }
    format.finish();
  }
  return {{"type", "object"},
          {"properties", {{kCustomArgument, std::move(input)}}},
          {"required", OrderedJson::array({kCustomArgument})},
          {"additionalProperties", false}};
}

/// Adds a function or a custom tool to those of the chat.
void add_function(RequestFields& tool, const OrderedJson& given, const Space& space, ResponsesTools& tools,
                  OrderedJson& list) {
  const ResponsesTool own{tool.needed_text("name"), space.name, tool.text("type") == "custom"};
  const std::string name = function_name_of(own.space, own.name);
  OrderedJson function = {{"name", name}};
  std::string description = space.description;
  append_text(description, "\n", tool.text("description").value_or(""));
  if (!description.empty()) function["description"] = description;
  if (own.is_custom) {
    function["parameters"] = custom_parameters(tool);
  } else {
    const Json* const parameters = tool.find("parameters");
    if (parameters != nullptr && !parameters->is_object()) {
      throw wrong_type(tool.name_of("parameters"), "a JSON Schema", *parameters);
    }
    if (parameters != nullptr) function["parameters"] = given["parameters"];
    if (const auto strict = tool.flag("strict")) function["strict"] = *strict;
  }
  tool.ignore({"output_schema", "allowed_callers", "async", "defer_loading", "cache_control"});
  tool.finish();
  if (!tools.by_name.emplace(name, own).second) tool.fail("name", fmt::format("there are two tools \"{}\"", name));
  list.push_back({{"type", "function"}, {"function", std::move(function)}});
}

void add_namespace(RequestFields& fields, const OrderedJson& given, ResponsesTools& tools, OrderedJson& list) {
  const Space space{fields.needed_text("name"), fields.text("description").value_or("")};
  const Json* const inner = fields.find("tools");
  if (inner == nullptr || !inner->is_array()) fields.fail("tools", "expected a list of tools");
  for (std::size_t i = 0; i < inner->size(); ++i) {
    RequestFields tool = fields.of((*inner)[i], fmt::format("tools[{}]", i));
    const std::string type = tool.needed_text("type");
    if (type != "function" && type != "custom") {
      tool.fail("type", fmt::format("expected function or custom, got \"{}\"", type));
    }
    add_function(tool, given["tools"][i], space, tools, list);
  }
  fields.finish();
}

void add_tool(RequestFields tool, const OrderedJson& given, ResponsesTools& tools, OrderedJson& list) {
  const std::string type = tool.needed_text("type");
  if (type == "function" || type == "custom") return add_function(tool, given, {}, tools, list);
  if (type == "namespace") return add_namespace(tool, given, tools, list);
  if (!is_hosted(type)) {
    std::vector<std::string> known = kHosted;
    known.insert(known.end(), {"function", "custom", "namespace"});
    tool.fail("type",
              fmt::format("expected function, custom or namespace, got \"{}\"{}", type, did_you_mean(type, known)));
  }
  tools.unavailable.push_back(type);
}

/// The function that a choice names: with its namespace, or by its own name if there is one such tool.
std::string chosen_function(RequestFields& choice, const ResponsesTools& tools) {
  const std::string name = choice.needed_text("name");
  const std::string full = function_name_of(choice.text("namespace").value_or(""), name);
  if (tools.by_name.contains(full)) return full;
  std::vector<std::string> others;
  for (const auto& [function, tool] : tools.by_name) {
    if (tool.name == name) others.push_back(function);
  }
  return others.size() == 1 ? others.front() : full;
}

/// `{"type": "function", "function": {"name"}}`; null for a tool that is not available.
OrderedJson choice_of_tool(RequestFields choice, const ResponsesTools& tools) {
  const std::string type = choice.needed_text("type");
  if (is_hosted(type)) return nullptr;
  if (type != "function" && type != "custom") {
    choice.fail("type", fmt::format("expected function, custom or allowed_tools, got \"{}\"", type));
  }
  const OrderedJson function = {{"name", chosen_function(choice, tools)}};
  choice.finish();
  return {{"type", "function"}, {"function", function}};
}

OrderedJson allowed_tools_of(RequestFields& choice, const ResponsesTools& tools) {
  const std::string mode = choice.text("mode").value_or("auto");
  if (mode != "auto" && mode != "required") {
    choice.fail("mode", fmt::format("expected auto or required, got \"{}\"", mode));
  }
  const Json* const list = choice.find("tools");
  if (list == nullptr || !list->is_array()) choice.fail("tools", "expected a list of tools");
  OrderedJson allowed = OrderedJson::array();
  for (std::size_t i = 0; i < list->size(); ++i) {
    OrderedJson tool = choice_of_tool(choice.of((*list)[i], fmt::format("tools[{}]", i)), tools);
    if (!tool.is_null()) allowed.push_back(std::move(tool));
  }
  choice.finish();
  if (allowed.empty() && mode == "required") choice.fail("tools", "expected a function or a custom tool");
  if (allowed.empty()) return "none";
  return {{"type", "allowed_tools"}, {"allowed_tools", {{"mode", mode}, {"tools", std::move(allowed)}}}};
}

OrderedJson choice_of(const Json& value, const RequestFields& fields, const ResponsesTools& tools) {
  if (value.is_string()) return value.get<std::string>();
  RequestFields choice = fields.of(value, "tool_choice");
  const std::string type = choice.needed_text("type");
  if (type == "allowed_tools") return allowed_tools_of(choice, tools);
  OrderedJson tool = choice_of_tool(choice, tools);
  if (tool.is_null()) choice.fail("type", fmt::format("the tool \"{}\" is not available", type));
  return tool;
}

}  // namespace

std::string function_name_of(std::string_view space, std::string_view name) {
  return space.empty() ? std::string(name) : fmt::format("{}.{}", space, name);
}

ResponsesTools read_responses_tools(RequestFields& fields, const OrderedJson& body, OrderedJson& chat) {
  ResponsesTools tools;
  OrderedJson functions = OrderedJson::array();
  if (const Json* const list = fields.find("tools")) {
    if (!list->is_array()) throw wrong_type("tools", "a list of tools", *list);
    for (std::size_t i = 0; i < list->size(); ++i) {
      add_tool(fields.of((*list)[i], fmt::format("tools[{}]", i)), body["tools"][i], tools, functions);
    }
  }
  if (!functions.empty()) chat["tools"] = std::move(functions);
  if (const Json* const choice = fields.find("tool_choice")) chat["tool_choice"] = choice_of(*choice, fields, tools);
  return tools;
}

}  // namespace vitrine
