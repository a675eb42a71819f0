#include "serve/messages/request.h"

#include <algorithm>

namespace vitrine {
namespace {

OrderedJson tool_of(RequestFields tool, const OrderedJson& given) {
  const std::string type = tool.text("type").value_or("custom");
  if (type != "custom") {
    tool.fail("type", fmt::format("expected \"custom\", got \"{}\": there are no tools of the server", type));
  }
  const auto name = tool.text("name");
  if (!name) tool.fail("name", "expected a string, got none");
  OrderedJson function = {{"name", *name}};
  if (const auto description = tool.text("description")) function["description"] = *description;
  const Json* const schema = tool.find("input_schema");
  if (schema == nullptr || !schema->is_object()) tool.fail("input_schema", "expected a JSON Schema");
  function["parameters"] = given["input_schema"];
  if (const auto strict = tool.flag("strict")) function["strict"] = *strict;
  tool.ignore({"cache_control", "eager_input_streaming", "input_examples"});
  tool.refuse("defer_loading", "is not supported");
  tool.refuse("allowed_callers", "is not supported", {Json::array({"direct"})});
  tool.finish();
  return {{"type", "function"}, {"function", std::move(function)}};
}

void add_tools(RequestFields& fields, const OrderedJson& body, OrderedJson& chat) {
  if (const Json* const list = fields.find("tools")) {
    if (!list->is_array()) throw wrong_type("tools", "a list of tools", *list);
    chat["tools"] = OrderedJson::array();
    for (std::size_t i = 0; i < list->size(); ++i) {
      chat["tools"].push_back(tool_of(fields.of((*list)[i], fmt::format("tools[{}]", i)), body["tools"][i]));
    }
  }
  const Json* const value = fields.find("tool_choice");
  if (value == nullptr) return;
  RequestFields choice = fields.of(*value, "tool_choice");
  const std::string type = choice.text("type").value_or("");
  if (type == "tool") {
    const auto name = choice.text("name");
    if (!name) choice.fail("name", "expected the name of a tool");
    chat["tool_choice"] = {{"type", "function"}, {"function", {{"name", *name}}}};
  } else if (type == "auto" || type == "any" || type == "none") {
    chat["tool_choice"] = type == "any" ? "required" : type;
  } else {
    choice.fail("type", fmt::format("expected auto, any, tool or none, got \"{}\"", type));
  }
  if (const auto is_single = choice.flag("disable_parallel_tool_use")) chat["parallel_tool_calls"] = !*is_single;
  choice.finish();
}

/// `{"type": "enabled" or "disabled"}` sets the template's switch, if it has one; a model that reasons without a switch
/// has a budget of none. The field `thinking_budget` is that of a chat.
void add_thinking(const ServedModel& model, RequestFields& fields, OrderedJson& chat) {
  constexpr const char* kSwitch = "enable_thinking";
  const auto own_budget = fields.whole<std::int64_t>("thinking_budget", -1);
  if (own_budget) chat["thinking_budget"] = *own_budget;
  const Json* const value = fields.find("thinking");
  if (value == nullptr) return;
  RequestFields thinking = fields.of(*value, "thinking");
  const std::string type = thinking.text("type").value_or("");
  if (type != "enabled" && type != "disabled" && type != "adaptive") {
    thinking.fail("type", fmt::format("expected enabled, disabled or adaptive, got \"{}\"", type));
  }
  const auto budget = thinking.whole<std::int64_t>("budget_tokens", 1);
  thinking.ignore({"display"});
  thinking.finish();
  const bool is_off = type == "disabled";
  if (!own_budget && (is_off || budget)) chat["thinking_budget"] = is_off ? 0 : *budget;
  if (model.chat == nullptr || type == "adaptive") return;
  if (std::ranges::count(model.chat->answers().variables, kSwitch) == 0) return;
  chat["chat_template_kwargs"] = {{kSwitch, !is_off}};
}

void add_format(RequestFields format, const OrderedJson& given, OrderedJson& chat) {
  const std::string type = format.text("type").value_or("");
  if (type != "json_schema") format.fail("type", fmt::format("expected \"json_schema\", got \"{}\"", type));
  if (format.find("schema") == nullptr) format.fail("schema", "expected a JSON Schema");
  format.ignore({"name"});
  format.finish();
  chat["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"schema", given["schema"]}}}};
}

void add_output(RequestFields& fields, const OrderedJson& body, OrderedJson& chat) {
  if (const Json* const format = fields.find("output_format")) {  // its name before there was output_config
    add_format(fields.of(*format, "output_format"), body["output_format"], chat);
  }
  const Json* const value = fields.find("output_config");
  if (value == nullptr) return;
  RequestFields config = fields.of(*value, "output_config");
  if (const Json* const format = config.find("format")) {
    add_format(config.of(*format, "format"), body["output_config"]["format"], chat);
  }
  if (const auto effort = config.text("effort")) chat["reasoning_effort"] = *effort;
  config.finish();
}

}  // namespace

std::string chat_body_of(const ServedModel& model, std::string_view body, MessagesRoute route) {
  const Json json = parse_body(body);
  const OrderedJson given = OrderedJson::parse(body);
  RequestFields fields(json, "", model.unknown_fields);
  OrderedJson chat = OrderedJson::object();
  if (route == MessagesRoute::answer) {
    const auto most = fields.whole<std::int64_t>("max_tokens", 1);
    if (!most) fields.fail("max_tokens", "expected a whole number from 1, got none");
    chat["max_tokens"] = *most;
  } else {
    fields.ignore({"max_tokens"});
  }
  for (const char* name : {"model", "temperature", "top_p", "top_k", "seed", "stream"}) {
    if (fields.find(name) != nullptr) chat[name] = given[name];
  }
  const auto stops = fields.get<std::vector<std::string>>("stop_sequences", "a list of texts");
  if (stops) chat["stop"] = *stops;
  chat["messages"] = chat_messages_of(fields, given);
  const bool continues = chat["messages"].back()["role"] == "assistant";
  if (continues) chat["continue_final_message"] = true;
  if (continues) chat["add_generation_prompt"] = false;
  add_tools(fields, given, chat);
  add_thinking(model, fields, chat);
  add_output(fields, given, chat);
  fields.ignore({"metadata", "service_tier", "cache_control", "inference_geo", "speed"});
  fields.refuse("mcp_servers", "is not supported");
  fields.refuse("container", "is not supported");
  fields.refuse("diagnostics", "is not supported");
  const Json keeps_all = {{"type", "clear_thinking_20251015"}, {"keep", "all"}};
  fields.refuse("context_management", "is not supported",
                {{{"edits", Json::array()}}, {{"edits", Json::array({keeps_all})}}});
  fields.finish();
  return json_text(chat);
}

}  // namespace vitrine
