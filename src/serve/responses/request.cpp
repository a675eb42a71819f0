#include "serve/responses/request.h"

#include <algorithm>

#include "base/nearest.h"
#include "generate/options.h"
#include "serve/foreign_fields.h"

namespace vitrine {
namespace {

/// Fields of a chat that change nothing but the text, which this interface has under the same names.
constexpr const char* kOfTheChat[] = {"model",
                                      "stream",
                                      "parallel_tool_calls",
                                      "seed",
                                      "stop",
                                      "stop_token_ids",
                                      "ignore_eos",
                                      "include_stop_str_in_output",
                                      "skip_special_tokens",
                                      "logit_bias",
                                      "bad_words",
                                      "allowed_token_ids",
                                      "samplers",
                                      "response_format",
                                      "structured_outputs",
                                      "json_schema",
                                      "guided_json",
                                      "guided_regex",
                                      "guided_choice",
                                      "guided_grammar",
                                      "must_finish",
                                      "cache_salt",
                                      "sse_ping_interval",
                                      "add_special_tokens",
                                      "documents",
                                      "add_generation_prompt",
                                      "continue_final_message",
                                      "chat_template_kwargs",
                                      "reasoning_effort",
                                      "reasoning_format",
                                      "truncate_prompt_tokens",
                                      "truncation_side"};

constexpr const char* kEncrypted = "reasoning.encrypted_content";
constexpr const char* kLogprobs = "message.output_text.logprobs";

void add_fields_of_the_chat(RequestFields& fields, const OrderedJson& given, OrderedJson& chat) {
  const auto pass = [&](std::string_view name) {
    if (fields.find(name) != nullptr) chat[std::string(name)] = given[std::string(name)];
  };
  for (const OptionRow& row : option_rows()) {
    if (!row.is_in(kInServer)) continue;
    pass(row.field_name());
    for (const char* const name : row.other_fields) pass(name);
  }
  for (const char* const name : kOfTheChat) pass(name);
  for (const ForeignField& field : foreign_fields()) {
    if ((field.in & kOfChat) != 0 && field.name != "prompt") pass(field.name);
  }
  for (const char* const name : {"n", "n_cmpl", "best_of"}) {
    fields.refuse(name, "expected 1: a response is one answer", {1});
  }
  fields.refuse("vitrine", "is not supported: /v1/chat/completions has it");
}

/// What needs responses that are stored, which no response is.
void refuse_stored(RequestFields& fields) {
  constexpr const char* kStored = "is not supported: responses are not stored; send all items as \"input\"";
  fields.refuse("previous_response_id", kStored);
  fields.refuse("conversation", kStored);
  fields.refuse("prompt", "is not supported: prompts are not stored; send \"instructions\" and \"input\"");
  fields.refuse("background", "is not supported: responses are not stored");
  fields.refuse("context_management", "is not supported");
}

void add_text(RequestFields& fields, const OrderedJson& body, OrderedJson& chat, OrderedJson& repeated) {
  const Json* const value = fields.find("text");
  OrderedJson shown = {{"format", {{"type", "text"}}}, {"verbosity", "medium"}};
  if (value != nullptr) {
    RequestFields text = fields.of(*value, "text");
    if (const auto verbosity = text.text("verbosity")) shown["verbosity"] = *verbosity;
    if (const Json* const form = text.find("format")) {
      RequestFields format = text.of(*form, "format");
      const std::string type = format.needed_text("type");
      const OrderedJson& given = body["text"]["format"];
      if (type != "text" && chat.contains("response_format")) {
        format.fail("type", "expected one constraint, got also \"response_format\"");
      }
      if (type == "json_schema") {
        format.ignore({"name", "description", "strict"});
        if (format.find("schema") == nullptr) format.fail("schema", "expected a JSON Schema");
        chat["response_format"] = {{"type", type}, {"json_schema", {{"schema", given["schema"]}}}};
      } else if (type == "json_object") {
        chat["response_format"] = {{"type", type}};
      } else if (type != "text") {
        format.fail("type", fmt::format("expected text, json_object or json_schema, got \"{}\"", type));
      }
      format.finish();
      shown["format"] = given;
    }
    text.finish();
  }
  repeated["text"] = std::move(shown);
}

/// The effort, if the template reads it or has a switch. Without either, an effort of none is a budget of none.
void add_reasoning_fields(const ServedModel& model, RequestFields& fields, OrderedJson& chat, OrderedJson& repeated) {
  repeated["reasoning"] = {{"effort", nullptr}, {"summary", nullptr}};
  const Json* const value = fields.find("reasoning");
  if (value == nullptr) return;
  RequestFields reasoning = fields.of(*value, "reasoning");
  const auto effort = reasoning.text("effort");
  reasoning.ignore({"summary", "generate_summary", "context", "mode"});
  reasoning.finish();
  if (!effort || model.chat == nullptr) return;
  const std::vector<std::string>& known = model.chat->answers().variables;
  const auto is_read = [&](const char* name) { return std::ranges::find(known, name) != known.end(); };
  const bool is_off = *effort == "none", has_budget = fields.find("thinking_budget") != nullptr;
  if (is_read("reasoning_effort") || is_read("enable_thinking") || is_read("thinking")) {
    chat["reasoning_effort"] = *effort;
  } else if (is_off && !has_budget) {
    chat["thinking_budget"] = 0;
  } else {
    return;
  }
  repeated["reasoning"]["effort"] = *effort;
}

/// What the response also has.
void add_included(RequestFields& fields, OrderedJson& chat, ResponsesRequest& request) {
  const std::vector<std::string> known = {kEncrypted,
                                          kLogprobs,
                                          "web_search_call.results",
                                          "web_search_call.action.sources",
                                          "file_search_call.results",
                                          "code_interpreter_call.outputs",
                                          "computer_call_output.output.image_url",
                                          "message.input_image.image_url"};
  const auto n_top = fields.whole<int>("top_logprobs", 0, 20);
  for (const std::string& name :
       fields.get<std::vector<std::string>>("include", "a list of texts").value_or(std::vector<std::string>{})) {
    if (std::ranges::find(known, name) == known.end()) {
      fields.fail("include", fmt::format("there is no \"{}\"{}", name, did_you_mean(name, known)));
    }
    if (name == kEncrypted) request.encrypts = true;
    if (name == kLogprobs) {
      chat["logprobs"] = true;
      chat["top_logprobs"] = n_top.value_or(0);
    }
  }
  request.repeated["top_logprobs"] = n_top.value_or(0);
}

/// The tools as the response has them: functions with all members that a client may expect.
OrderedJson repeated_tools(const OrderedJson& given) {
  OrderedJson tools = OrderedJson::array();
  for (OrderedJson tool : given) {
    if (tool["type"] == "function") {
      for (const char* const name : {"parameters", "strict"}) {
        if (!tool.contains(name)) tool[name] = nullptr;
      }
    }
    tools.push_back(std::move(tool));
  }
  return tools;
}

/// Fields that change nothing, of which the response repeats some.
void add_repeated(RequestFields& fields, const OrderedJson& body, OrderedJson& repeated) {
  const auto repeat = [&](const char* name, const OrderedJson& otherwise) {
    repeated[name] = fields.find(name) != nullptr ? body[name] : otherwise;
  };
  for (const char* const name :
       {"instructions", "max_output_tokens", "max_tool_calls", "prompt_cache_key", "safety_identifier", "user"}) {
    repeat(name, nullptr);
  }
  repeat("metadata", OrderedJson::object());
  repeat("parallel_tool_calls", true);
  repeat("tool_choice", "auto");
  repeated["tools"] = fields.find("tools") != nullptr ? repeated_tools(body["tools"]) : OrderedJson::array();
  const std::string truncation = fields.text("truncation").value_or("disabled");
  if (truncation != "disabled" && truncation != "auto") {
    fields.fail("truncation", fmt::format("expected auto or disabled, got \"{}\"", truncation));
  }
  if (fields.find("metadata") != nullptr && !body["metadata"].is_object()) {
    throw wrong_type("metadata", "an object", *fields.find("metadata"));
  }
  fields.ignore({"background_options", "access_programs", "image", "personality", "stream_options", "client_metadata"});
}

}  // namespace

std::string_view name_in_responses(std::string_view field_of_chat) {
  if (field_of_chat == "messages") return "input";
  if (field_of_chat == "max_tokens") return "max_output_tokens";
  return field_of_chat == "response_format" ? "text.format" : "";
}

ResponsesRequest read_responses_request(const ServedModel& model, std::string_view body) {
  const Json json = parse_body(body);
  const OrderedJson given = OrderedJson::parse(body);
  RequestFields fields(json, "", model.unknown_fields);
  ResponsesRequest request;
  OrderedJson chat = OrderedJson::object();
  refuse_stored(fields);
  add_fields_of_the_chat(fields, given, chat);
  if (const auto most = fields.whole<std::int64_t>("max_output_tokens", 1)) chat["max_tokens"] = *most;
  chat["messages"] = responses_messages_of(fields);
  request.tools = read_responses_tools(fields, given, chat);
  add_text(fields, given, chat, request.repeated);
  add_reasoning_fields(model, fields, chat, request.repeated);
  add_included(fields, chat, request);
  add_repeated(fields, given, request.repeated);
  fields.finish();
  request.chat_body = json_text(chat);
  return request;
}

}  // namespace vitrine
