// OpenAI's Responses interface: its requests as those of chats, and its items, events and errors.
#include "serve/responses/custom_input.h"
#include "serve/responses/reply.h"
#include "serve/responses/request.h"
#include "serve/routes.h"
#include "serve/served.h"
#include "tokenizer/utf8.h"

namespace vitrine::test {
namespace {

class ResponsesDoor : public ServedModelTest {
 protected:
  /// A template with a reasoning, calls and a switch.
  void use_agents_template() {
    ChatTemplates templates;
    templates.by_name["default"] =
        "{% for t in tools or [] %}T{{ t | tojson }}{% endfor %}{% for m in messages %}{{ m.role }} "
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}"
        "{% for c in m.tool_calls or [] %}<c>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
        "{{ c.function.arguments | tojson }}}</c>{% endfor %};{% endfor %}"
        "{% if add_generation_prompt %}assistant {% if enable_thinking is defined and not enable_thinking %}"
        "<think></think>{% endif %}{% endif %}";
    chat_.emplace(templates, *tokenizer_, ChatVariables{}, "test");
    ASSERT_TRUE(chat_->answers().calls) << chat_->answers().reason;
  }
  static std::string body_of(const std::string& fields, const std::string& input) {
    return R"({"max_output_tokens": 9, "input": )" + input + (fields.empty() ? "" : ", " + fields) + "}";
  }
  ResponsesRequest read(const std::string& fields, const std::string& input = kHi) const {
    return read_responses_request(model_, body_of(fields, input));
  }
  Json chat(const std::string& fields, const std::string& input = kHi) const {
    return Json::parse(read(fields, input).chat_body);
  }
  Json messages(const std::string& input, const std::string& fields = "") const {
    return chat(fields, input)["messages"];
  }
  void expect_error(const std::string& fields, const std::string& input, const std::string& param,
                    const std::string& part) const {
    SCOPED_TRACE(fields + input);
    expect_refusal([&] { parse_chat(model_, read(fields, input).chat_body, 1); }, 400, param, {part});
  }
  GenerateResult result(const std::string& text, FinishReason reason = FinishReason::stop) const {
    GenerateResult result;
    result.ids = ids_of(text, SpecialTokens::none);
    for (const std::int32_t id : result.ids) result.logprobs.push_back({id, -1, {}});
    result.text = text;
    result.finish_reason = reason;
    return result;
  }
  /// A response without what depends on the time.
  static Json timeless(Json response) {
    response.erase("completed_at");
    return response;
  }
  Json whole(const std::string& fields, const GenerateResult& result) const {
    const ResponsesRequest asked = read(fields);
    const CompletionRequest request = parse_chat(model_, asked.chat_body, 1);
    ResponsesReply reply(model_, request, asked, "1", 1234);
    return timeless(Json::parse(reply.whole(std::vector<GenerateResult>{result})));
  }
  static std::vector<Json> events_in(const std::string& text) {
    std::vector<Json> events;
    for (std::size_t at = 0, end = 0; at < text.size(); at = end + 2) {
      end = text.find("\n\n", at);
      const std::string event = text.substr(at, end - at);
      const std::size_t line = event.find("\ndata: ");
      events.push_back(Json::parse(event.substr(line + 7)));
      EXPECT_EQ(event.substr(0, line), "event: " + events.back()["type"].get<std::string>());
      EXPECT_EQ(events.back()["sequence_number"], events.size() - 1);
    }
    return events;
  }
  /// The events of a text that comes token by token.
  std::vector<Json> events(const std::string& fields, GenerateResult result) const {
    const ResponsesRequest asked = read(fields);
    const CompletionRequest request = parse_chat(model_, asked.chat_body, 1);
    ResponsesReply reply(model_, request, asked, "1", 1234);
    std::string text;
    Detokenizer detokenizer(*tokenizer_, request.prompts[0].ids.back());
    std::size_t n_shown = 0;
    std::string bytes;
    for (const TokenReport& token : result.logprobs) {
      SequenceStep step;
      step.tokens = {token};
      bytes += detokenizer.push(token.id);
      const std::size_t n_whole = whole_prefix(bytes);
      step.text = bytes.substr(n_shown, n_whole - n_shown);
      n_shown = n_whole;
      text += reply.events(std::move(step));
    }
    EXPECT_EQ(bytes, result.text);
    SequenceStep last;
    last.result = std::move(result);
    text += reply.events(std::move(last)) + reply.last_events();
    return events_in(text);
  }
  static std::vector<std::string> types_of(const std::vector<Json>& events) {
    std::vector<std::string> types;
    for (const Json& event : events) {
      const std::string type = event["type"];
      const bool goes_on = type.ends_with(".delta") && !types.empty() && types.back() == type;
      if (!goes_on) types.push_back(type);
    }
    return types;
  }
  /// The output that a client puts together from the events before the last one.
  static Json output_of(const std::vector<Json>& events) {
    Json output = Json::array();
    std::string text;
    for (const Json& event : events) {
      const std::string type = event["type"];
      if (type == "response.output_item.added") {
        EXPECT_EQ(event["output_index"], output.size());
        EXPECT_EQ(event["item"]["status"], "in_progress");
        output.push_back(event["item"]);
        text.clear();
        continue;
      }
      if (!event.contains("output_index")) continue;
      EXPECT_EQ(event["output_index"], output.size() - 1);
      Json& item = output.back();
      if (event.contains("item_id")) {
        EXPECT_EQ(event["item_id"], item["id"]);
      }
      if (type.ends_with(".delta")) text += event["delta"].get<std::string>();
      if (type.ends_with("_text.done")) {
        EXPECT_EQ(event["text"], text);
      }
      if (type == "response.function_call_arguments.done") {
        EXPECT_EQ(event["arguments"], text);
      }
      if (type == "response.custom_tool_call_input.done") {
        EXPECT_EQ(event["input"], text);
      }
      if (type == "response.content_part.done") {
        EXPECT_EQ(event["part"]["text"], text);
      }
      if (type == "response.output_item.done") item = event["item"];
    }
    return output;
  }

  static constexpr const char* kHi = R"("Hi")";
  static constexpr const char* kTools = R"("tools": [{"type": "function", "name": "f", "description": "d",
      "strict": true, "parameters": {"type": "object", "properties": {"z": {"type": "integer"},
      "a": {"type": "string"}}, "required": ["z"]}}])";
  static constexpr const char* kCustom = R"("tools": [{"type": "custom", "name": "run"}])";
};

TEST_F(ResponsesDoor, FieldsAreThoseOfAChat) {
  EXPECT_EQ(chat(R"("model": "alias", "instructions": "Be kind", "temperature": 0.5, "top_p": 0.5, "top_k": 3,
      "seed": 4, "stream": true, "parallel_tool_calls": false, "stop": ["x"], "min_p": 0.1, "thinking_budget": 3,
      "text": {"format": {"type": "json_schema", "name": "n", "strict": true, "schema": {"type": "object"}},
               "verbosity": "low"}, "include": ["message.output_text.logprobs"], "top_logprobs": 2)"),
            Json::parse(R"({"model": "alias", "max_tokens": 9, "temperature": 0.5, "top_p": 0.5, "top_k": 3,
      "seed": 4, "stream": true, "parallel_tool_calls": false, "stop": ["x"], "min_p": 0.1, "thinking_budget": 3,
      "messages": [{"role": "system", "content": "Be kind"}, {"role": "user", "content": "Hi"}],
      "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
      "logprobs": true, "top_logprobs": 2})"));
  EXPECT_EQ(chat(R"("text": {"format": {"type": "json_object"}})")["response_format"]["type"], "json_object");
  EXPECT_FALSE(chat(R"("text": {"format": {"type": "text"}})").contains("response_format"));
}

TEST_F(ResponsesDoor, ItemsAreMessagesOfAChat) {
  EXPECT_EQ(messages(R"([{"role": "developer", "content": "s"},
      {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"},
       {"type": "input_text", "text": "b"}]}, {"role": "user", "content": "c"},
      {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "no"}],
       "content": [{"type": "reasoning_text", "text": "t"}], "encrypted_content": "eA==", "status": "completed"},
      {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [{"type": "output_text",
       "text": "ok", "annotations": [], "logprobs": []}]},
      {"type": "function_call", "id": "fc", "call_id": "i", "name": "f", "arguments": "{\"z\":1}", "status": "completed"},
      {"type": "custom_tool_call", "call_id": "j", "name": "run", "namespace": "s", "input": "a\"\n"},
      {"type": "function_call_output", "call_id": "i", "output": "rain"},
      {"type": "custom_tool_call_output", "call_id": "j", "output": [{"type": "input_text", "text": "sun"},
       {"type": "input_text", "text": "moon"}]},
      {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "aG0="},
      {"role": "assistant", "content": "one"}, {"role": "assistant", "content": "two"}])"),
            Json::parse(R"([{"role": "developer", "content": "s"}, {"role": "user", "content": "a\nb"},
      {"role": "user", "content": "c"},
      {"role": "assistant", "content": "ok", "reasoning_content": "t", "tool_calls": [
       {"id": "i", "type": "function", "function": {"name": "f", "arguments": "{\"z\":1}"}},
       {"id": "j", "type": "function", "function": {"name": "s.run", "arguments": "{\"input\":\"a\\\"\\n\"}"}}]},
      {"role": "tool", "tool_call_id": "i", "content": "rain"}, {"role": "tool", "tool_call_id": "j",
       "content": "sun\nmoon"}, {"role": "assistant", "content": "one", "reasoning_content": "hm"},
      {"role": "assistant", "content": "two"}])"));
  EXPECT_EQ(messages(R"([{"role": "user", "content": "a"}, {"type": "function_call", "call_id": "i", "name": "f",
      "arguments": "{}"}, {"type": "function_call_output", "call_id": "i", "output": ""}])")[1]["content"],
            Json());
}

TEST_F(ResponsesDoor, ToolsAreFunctions) {
  use_agents_template();
  const ResponsesRequest request = read(R"("tools": [
      {"type": "function", "name": "f", "parameters": {"z": 1, "a": 2}, "strict": false, "output_schema": {}},
      {"type": "custom", "name": "run", "description": "d"},
      {"type": "custom", "name": "digits", "format": {"type": "grammar", "syntax": "regex", "definition": "^[0-9]+$"}},
      {"type": "namespace", "name": "crm", "description": "Customers", "tools": [{"type": "function", "name": "list",
       "description": "all", "parameters": null}]}, {"type": "web_search"}, {"type": "mcp", "server_label": "x"}])");
  EXPECT_THAT(request.chat_body, testing::HasSubstr(R"({"z":1,"a":2})"));
  const Json tools = Json::parse(request.chat_body)["tools"];
  ASSERT_EQ(tools.size(), 4U);
  EXPECT_EQ(tools[0]["function"]["strict"], false);
  EXPECT_EQ(tools[1]["function"], Json::parse(R"({"name": "run", "description": "d", "parameters": {"type": "object",
      "properties": {"input": {"type": "string"}}, "required": ["input"], "additionalProperties": false}})"));
  EXPECT_EQ(tools[2]["function"]["parameters"]["properties"]["input"]["pattern"], "^(?:[0-9]+)$");
  EXPECT_EQ(tools[3]["function"], Json::parse(R"({"name": "crm.list", "description": "Customers\nall"})"));
  EXPECT_EQ(request.tools.unavailable, (std::vector<std::string>{"web_search", "mcp"}));
  EXPECT_FALSE(chat(R"("tools": [{"type": "web_search"}])").contains("tools"));
}

TEST_F(ResponsesDoor, ChoicesNameFunctions) {
  const auto choice = [&](const std::string& value) {
    return chat(R"("tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "run"}, {"type":
        "namespace", "name": "crm", "tools": [{"type": "function", "name": "list"}]}], "tool_choice": )" +
                value)["tool_choice"];
  };
  const auto function = [](const std::string& name) {
    return Json{{"type", "function"}, {"function", {{"name", name}}}};
  };
  EXPECT_EQ(choice(R"("required")"), "required");
  EXPECT_EQ(choice(R"({"type": "function", "name": "f"})"), function("f"));
  EXPECT_EQ(choice(R"({"type": "custom", "name": "run"})"), function("run"));
  EXPECT_EQ(choice(R"({"type": "function", "name": "list"})"), function("crm.list"));
  EXPECT_EQ(choice(R"({"type": "function", "name": "list", "namespace": "crm"})"), function("crm.list"));
  EXPECT_EQ(choice(R"({"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "run"},
      {"type": "web_search"}]})"),
            (Json{{"type", "allowed_tools"},
                  {"allowed_tools", {{"mode", "required"}, {"tools", Json::array({function("run")})}}}}));
  EXPECT_EQ(choice(R"({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]})"), "none");
}

TEST_F(ResponsesDoor, AnEffortIsThatOfTheTemplate) {
  const std::string none = R"("reasoning": {"effort": "none", "summary": "auto"})",
                    low = R"("reasoning": {"effort": "low"})";
  EXPECT_EQ(chat(none)["thinking_budget"], 0) << "the template reads no switch";
  EXPECT_FALSE(chat(low).contains("reasoning_effort"));
  EXPECT_EQ(read(low).repeated["reasoning"]["effort"], OrderedJson());
  use_agents_template();
  EXPECT_EQ(chat(none)["reasoning_effort"], "none");
  EXPECT_EQ(chat(low)["reasoning_effort"], "low");
  EXPECT_EQ(read(low).repeated["reasoning"]["effort"], "low");
}

TEST_F(ResponsesDoor, WhatIsNotSupportedIsNamed) {
  expect_error(R"("previous_response_id": "r")", kHi, "previous_response_id", "not stored");
  expect_error(R"("conversation": {"id": "c"})", kHi, "conversation", "not stored");
  expect_error(R"("background": true)", kHi, "background", "not stored");
  expect_error(R"("prompt": {"id": "p"})", kHi, "prompt", "not stored");
  expect_error("", "[]", "input", "at least one item");
  const auto user = [](const std::string& part) { return R"([{"role": "user", "content": [)" + part + "]}]"; };
  expect_error("", user(R"({"type": "input_image", "image_url": "u"})"), "input[0].content[0].type", "input_image");
  expect_error("", user(R"({"type": "input_file", "file_id": "u"})"), "input[0].content[0].type", "input_file");
  expect_error("", R"([{"type": "item_reference", "id": "i"}])", "input[0].type", "item_reference");
  expect_error("", R"([{"role": "tool", "content": "i"}])", "input[0].role", "developer");
  expect_error("", R"([{"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}])",
               "input[0].encrypted_content", "base64");
  expect_error(R"("tools": [{"type": "custom", "name": "x", "format": {"type": "grammar", "syntax": "lark",
      "definition": "start: x"}}])",
               kHi, "tools[0].format.syntax", "lark");
  expect_error(R"("tools": [{"type": "functoin", "name": "x"}])", kHi, "tools[0].type", "did you mean function?");
  expect_error(R"("tool_choice": {"type": "web_search"})", kHi, "tool_choice.type", "not available");
  expect_error(R"("include": ["reasoning.encryptd_content"])", kHi, "include",
               "did you mean reasoning.encrypted_content");
  expect_error(R"("n": 2)", kHi, "n", "one answer");
  expect_error(R"("max_output_token": 2)", kHi, "max_output_token", "did you mean max_output_tokens?");
  expect_error(R"("top_p": 2)", kHi, "top_p", "1");
  expect_error(R"("text": {"format": {"type": "json_object"}}, "response_format": {"type": "text"})", kHi,
               "text.format.type", "one constraint");
  const std::string without_effect = R"("metadata": {"a": "b"}, "user": "u", "service_tier": "auto", "store": true,
      "truncation": "auto", "safety_identifier": "s", "prompt_cache_key": "k", "prompt_cache_retention": "24h",
      "stream_options": {"include_obfuscation": false}, "max_tool_calls": 1, "previous_response_id": null,
      "background": false, "include": ["file_search_call.results"], "text": {"verbosity": "high"})";
  EXPECT_EQ(parse_chat(model_, read(without_effect).chat_body, 1).prompts[0].ids,
            parse_chat(model_, read("").chat_body, 1).prompts[0].ids);
}

TEST_F(ResponsesDoor, AResponseHasAMessageAndItsUsage) {
  GenerateResult answer = result("Hello", FinishReason::length);
  answer.cached_tokens = 2;
  const Json response = whole(R"("metadata": {"a": "b"}, "temperature": 0.5, "store": true)", answer);
  EXPECT_EQ(response["id"], "resp_1");
  EXPECT_EQ(response["object"], "response");
  EXPECT_EQ(response["created_at"], 1234);
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"], Json({{"reason", "max_output_tokens"}}));
  EXPECT_EQ(response["output"], Json::parse(R"([{"id": "msg_1_0", "type": "message", "status": "incomplete",
      "role": "assistant", "content": [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}]}])"));
  EXPECT_EQ(response["store"], false);
  EXPECT_EQ(response["metadata"], Json({{"a", "b"}}));
  EXPECT_EQ(response["temperature"], 0.5);
  EXPECT_EQ(response["max_output_tokens"], 9);
  const std::size_t n = parse_chat(model_, read("").chat_body, 1).prompts[0].ids.size();
  EXPECT_EQ(response["usage"]["input_tokens"], n);
  EXPECT_EQ(response["usage"]["input_tokens_details"]["cached_tokens"], 2);
  EXPECT_EQ(response["usage"]["output_tokens"], answer.ids.size());
  EXPECT_EQ(response["usage"]["total_tokens"], n + answer.ids.size());
  for (const char* const name :
       {"error", "instructions", "max_tool_calls", "parallel_tool_calls", "previous_response_id", "reasoning", "text",
        "tool_choice", "tools", "top_p", "truncation"}) {
    EXPECT_TRUE(response.contains(name)) << name;
  }
  EXPECT_FALSE(response.contains("vitrine"));
  const Json empty = whole(R"("tools": [{"type": "web_search"}])", result(""));
  EXPECT_EQ(empty["status"], "completed");
  EXPECT_EQ(empty["output"][0]["content"][0]["text"], "");
  EXPECT_EQ(empty["vitrine"], Json::parse(R"({"unavailable_tools": ["web_search"]})"));
}

TEST_F(ResponsesDoor, EventsAndItemsAreTheSameResponse) {
  use_agents_template();
  const std::string fields = std::string(kTools) + R"(, "include": ["reasoning.encrypted_content"])";
  const GenerateResult answer = result("<think>hm é</think>Let me see." +
                                       std::string(R"(<c>{"name": "f", "arguments": {"z": 1, "a": "x"}}</c>)"));
  const Json response = whole(fields, answer);
  ASSERT_EQ(response["output"].size(), 3U) << response;
  EXPECT_EQ(response["output"][0], Json::parse(R"({"id": "rs_1_0", "type": "reasoning", "status": "completed",
      "summary": [], "content": [{"type": "reasoning_text", "text": "hm é"}], "encrypted_content": "aG0gw6k="})"));
  EXPECT_EQ(response["output"][1]["content"][0]["text"], "Let me see.");
  EXPECT_EQ(response["output"][2]["type"], "function_call");
  EXPECT_EQ(response["output"][2]["name"], "f");
  EXPECT_EQ(response["output"][2]["arguments"], R"({"z":1,"a":"x"})");
  EXPECT_EQ(response["output"][2]["status"], "completed");
  EXPECT_GT(response["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
  const std::vector<Json> all = events(fields, answer);
  EXPECT_THAT(
      types_of(all),
      testing::ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                           "response.content_part.added", "response.reasoning_text.delta",
                           "response.reasoning_text.done", "response.content_part.done", "response.output_item.done",
                           "response.output_item.added", "response.content_part.added", "response.output_text.delta",
                           "response.output_text.done", "response.content_part.done", "response.output_item.done",
                           "response.output_item.added", "response.function_call_arguments.delta",
                           "response.function_call_arguments.done", "response.output_item.done", "response.completed"));
  EXPECT_EQ(all[0]["response"]["status"], "in_progress");
  EXPECT_EQ(all[0]["response"]["output"], Json::array());
  EXPECT_EQ(output_of(all), response["output"]);
  EXPECT_EQ(timeless(all.back()["response"]), response);
  // What the response says can be sent back.
  Json input = Json::array({{{"role", "user"}, {"content", "Hi"}}});
  for (const Json& item : response["output"]) input.push_back(item);
  const Json back = messages(input.dump())[1];
  EXPECT_EQ(back["reasoning_content"], "hm é");
  EXPECT_EQ(back["content"], "Let me see.");
  EXPECT_EQ(back["tool_calls"][0]["id"], response["output"][2]["call_id"]);
}

TEST_F(ResponsesDoor, ACustomToolGetsAText) {
  use_agents_template();
  const GenerateResult answer =
      result(R"(<c>{"name": "run", "arguments": {"input": "a\n\"b\"\u00e9\ud83d\ude00"}}</c>)");
  const Json response = whole(kCustom, answer);
  ASSERT_EQ(response["output"].size(), 1U) << response;
  EXPECT_EQ(response["output"][0]["type"], "custom_tool_call");
  EXPECT_EQ(response["output"][0]["name"], "run");
  EXPECT_EQ(response["output"][0]["input"], "a\n\"b\"é😀");
  const std::vector<Json> all = events(kCustom, answer);
  EXPECT_THAT(types_of(all),
              testing::ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                                   "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done",
                                   "response.output_item.done", "response.completed"));
  EXPECT_EQ(output_of(all), response["output"]);
}

TEST_F(ResponsesDoor, ACallThatBreaksOffIsIncomplete) {
  use_agents_template();
  const std::string namespaced =
      R"("tools": [{"type": "namespace", "name": "s", "tools": [{"type": "custom", "name": "run"}]}])";
  const Json item = whole(
      namespaced, result(R"(<c>{"name": "s.run", "arguments": {"input": "ab\)", FinishReason::length))["output"][0];
  EXPECT_EQ(item["status"], "incomplete");
  EXPECT_EQ(item["namespace"], "s");
  EXPECT_EQ(item["name"], "run");
  EXPECT_EQ(item["input"], "ab");
  const Json call = whole(kTools, result(R"(<c>{"name": "f", "arguments": {"z": )", FinishReason::length));
  EXPECT_EQ(call["output"][0]["status"], "incomplete");
  EXPECT_EQ(call["status"], "incomplete");
}

TEST_F(ResponsesDoor, LogprobsAreThoseOfTheText) {
  use_agents_template();
  const std::string fields =
      std::string(kTools) + R"(, "include": ["message.output_text.logprobs"], "top_logprobs": 1)";
  const GenerateResult answer = result("<think>hm</think>Let é me see.");
  const Json response = whole(fields, answer);
  std::string bytes;
  for (const Json& token : response["output"][1]["content"][0]["logprobs"]) {
    for (const Json& byte : token["bytes"]) bytes += static_cast<char>(byte.get<int>());
    EXPECT_EQ(token["logprob"], -1);
    EXPECT_EQ(token["top_logprobs"].size(), 1U);
  }
  EXPECT_THAT(bytes, testing::EndsWith("Let é me see."));
  const std::vector<Json> all = events(fields, answer);
  EXPECT_EQ(output_of(all), response["output"]);
  Json streamed = Json::array();
  for (const Json& event : all) {
    if (event["type"] != "response.output_text.delta") continue;
    for (const Json& token : event["logprobs"]) streamed.push_back(token);
  }
  EXPECT_EQ(streamed, response["output"][1]["content"][0]["logprobs"]);
}

TEST_F(ResponsesDoor, AStreamThatFailsSaysSo) {
  const ResponsesRequest asked = read("");
  const CompletionRequest request = parse_chat(model_, asked.chat_body, 1);
  ResponsesReply reply(model_, request, asked, "1", 1234);
  const std::vector<Json> all = events_in(reply.error_event(RequestError(kFailed, "a", "b")));
  EXPECT_THAT(types_of(all),
              testing::ElementsAre("response.created", "response.in_progress", "error", "response.failed"));
  EXPECT_EQ(all[2]["message"], "[a] b");
  EXPECT_EQ(all[3]["response"]["status"], "failed");
  EXPECT_EQ(all[3]["response"]["error"], Json::parse(R"({"code": "server_error", "message": "[a] b"})"));
  const RequestError refusal(kInvalid, "a", "b");
  EXPECT_EQ(find_route("/v1/responses")->error(refusal), refusal.to_json());
}

TEST_F(ResponsesDoor, TokensAreCountedAsTheResponseCountsThem) {
  const std::string body = R"({"input": "Hi", "instructions": "Be kind"})";
  const Route& route = *find_route("/v1/responses/input_tokens");
  const auto count = [&](const std::string& text) {
    return std::get<Route::Answer>(route.handler)(model_, {text, "", "1", 0, {}});
  };
  const std::size_t n = parse_chat(model_, read(R"("instructions": "Be kind")").chat_body, 1).prompts[0].ids.size();
  EXPECT_EQ(count(body), Json({{"object", "response.input_tokens"}, {"input_tokens", n}}));
  std::string long_text;
  for (int i = 0; i < 600; ++i) long_text += "a b ";
  expect_refusal([&] { count(R"({"input": ")" + long_text + "\"}"); }, 400, "input", {"[input] ", "512"});
}

/// Wherever the arguments are cut, what has been handed out is a beginning of the text, and whole characters.
TEST(CustomInputTest, EscapesAreNeverSplit) {
  const std::string arguments = R"( { "in\"put" : "a\\\"\/\b\f\n\r\té\u00E9\ud83d\ude00\ud83dx\ude00" } )";
  const std::string text = "a\\\"/\b\f\n\r\téé😀\xef\xbf\xbdx\xef\xbf\xbd";
  CustomInput all;
  EXPECT_EQ(all.append(arguments), text);
  EXPECT_TRUE(all.is_complete());
  for (std::size_t cut = 0; cut < arguments.size(); ++cut) {
    CustomInput input;
    std::string read = input.append(arguments.substr(0, cut));
    EXPECT_TRUE(text.starts_with(read)) << cut;
    read += input.append(arguments.substr(cut));
    EXPECT_EQ(read, text) << cut;
  }
}

}  // namespace
}  // namespace vitrine::test
