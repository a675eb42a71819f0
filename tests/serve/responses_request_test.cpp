// OpenAI's Responses interface: its requests as those of chats.
#include "serve/responses_door.h"

namespace vitrine::test {
namespace {

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

}  // namespace
}  // namespace vitrine::test
