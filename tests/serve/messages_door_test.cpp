// Anthropic's interface: its requests as those of chats, and its messages, events and errors.
#include "serve/messages/reply.h"
#include "serve/messages/request.h"
#include "serve/served.h"

namespace vitrine::test {
namespace {

class MessagesDoor : public ServedModelTest {
 protected:
  static std::string body_of(const std::string& fields, const std::string& messages) {
    return R"({"max_tokens": 9, "messages": )" + messages + (fields.empty() ? "" : ", " + fields) + "}";
  }
  std::string chat_text(const std::string& fields, const std::string& messages = kHi) const {
    return chat_body_of(model_, body_of(fields, messages), MessagesRoute::answer);
  }
  Json chat(const std::string& fields, const std::string& messages = kHi) const {
    return Json::parse(chat_text(fields, messages));
  }
  CompletionRequest request(const std::string& fields, const std::string& messages = kHi) const {
    return parse_chat(model_, chat_text(fields, messages), 1);
  }
  void expect_error(const std::string& fields, const std::string& messages, const std::string& param,
                    const std::string& part) const {
    SCOPED_TRACE(fields + messages);
    expect_refusal([&] { request(fields, messages); }, 400, param, {part});
  }
  GenerateResult result(const std::string& text, FinishReason reason = FinishReason::stop) const {
    GenerateResult result;
    result.ids = ids_of(text, SpecialTokens::none);
    result.text = text;
    result.finish_reason = reason;
    return result;
  }
  Json whole(const CompletionRequest& request, const GenerateResult& result) const {
    MessagesReply reply(model_, request, "1");
    return Json::parse(reply.whole(std::vector<GenerateResult>{result}));
  }
  /// The events of a text that comes in pieces of one byte.
  std::vector<Json> events(const CompletionRequest& request, GenerateResult result) const {
    MessagesReply reply(model_, request, "1");
    std::string text;
    for (const char c : result.text) {
      SequenceStep step;
      step.tokens = {TokenReport{5, 0, {}}};
      step.text = std::string(1, c);
      text += reply.events(std::move(step));
    }
    SequenceStep last;
    last.result = std::move(result);
    text += reply.events(std::move(last)) + reply.last_events();
    std::vector<Json> events;
    for (std::size_t at = 0, end = 0; at < text.size(); at = end + 2) {
      end = text.find("\n\n", at);
      const std::string event = text.substr(at, end - at);
      const std::size_t line = event.find("\ndata: ");
      events.push_back(Json::parse(event.substr(line + 7)));
      EXPECT_EQ(event.substr(0, line), "event: " + events.back()["type"].get<std::string>());
    }
    return events;
  }
  /// The message that a client puts together from events.
  static Json message_of(const std::vector<Json>& events) {
    Json message;
    std::string arguments;
    for (const Json& event : events) {
      const std::string type = event["type"];
      if (type == "message_start") message = event["message"];
      if (type == "content_block_start") {
        EXPECT_EQ(event["index"], message["content"].size());
        message["content"].push_back(event["content_block"]);
        arguments.clear();
      }
      if (type == "content_block_delta") {
        EXPECT_EQ(event["index"], message["content"].size() - 1);
        Json& block = message["content"].back();
        for (const char* name : {"text", "thinking"}) {
          if (!event["delta"].contains(name)) continue;
          block[name] = block[name].get<std::string>() + event["delta"][name].get<std::string>();
        }
        arguments += event["delta"].value("partial_json", "");
      }
      if (type == "content_block_stop" && !arguments.empty())
        message["content"].back()["input"] = Json::parse(arguments);
      if (type == "message_delta") {
        message.update(event["delta"]);
        message["usage"] = event["usage"];
      }
    }
    return message;
  }

  static constexpr const char* kHi = R"([{"role": "user", "content": "Hi"}])";
  static constexpr const char* kTools = R"("tools": [{"name": "f", "description": "d", "cache_control": null,
      "input_schema": {"type": "object", "properties": {"z": {"type": "integer"}, "a": {"type": "string"}},
                       "required": ["z"]}}])";
};

TEST_F(MessagesDoor, FieldsAreThoseOfAChat) {
  EXPECT_EQ(chat(R"("model": "alias", "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
      {"type": "text", "text": "b"}], "stop_sequences": ["x"], "temperature": 0.5, "top_p": 0.5, "top_k": 3, "seed": 4,
      "stream": true, "metadata": {"user_id": "u"}, "service_tier": "auto", "output_config": {"effort": "low",
      "format": {"type": "json_schema", "schema": {"type": "object"}}}, "thinking": {"type": "adaptive"},
      "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]})"),
            Json::parse(R"({"model": "alias", "max_tokens": 9, "stop": ["x"], "temperature": 0.5, "top_p": 0.5,
      "top_k": 3, "seed": 4, "stream": true, "reasoning_effort": "low",
      "messages": [{"role": "system", "content": "a\nb"}, {"role": "user", "content": "Hi"}],
      "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}})"));
}

TEST_F(MessagesDoor, BlocksAreMessagesOfAChat) {
  const Json messages = chat("", R"([{"role": "user", "content": [{"type": "text", "text": "a"},
      {"type": "text", "text": "b"}]}, {"role": "user", "content": "c"},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"},
       {"type": "redacted_thinking", "data": "r"}, {"type": "text", "text": "ok"},
       {"type": "tool_use", "id": "i", "name": "f", "input": {"z": 1, "a": "x"}},
       {"type": "tool_use", "id": "j", "name": "g", "input": {}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i", "content": "rain", "is_error": false},
       {"type": "tool_result", "tool_use_id": "j", "content": [{"type": "text", "text": "sun"}]},
       {"type": "text", "text": "and?"}]},
      {"role": "system", "content": [{"type": "text", "text": "s"}]},
      {"role": "assistant", "content": "It "}])")["messages"];
  EXPECT_EQ(messages, Json::parse(R"([{"role": "user", "content": "a\nb\nc"},
      {"role": "assistant", "content": "ok", "reasoning_content": "t", "tool_calls": [
       {"id": "i", "type": "function", "function": {"name": "f", "arguments": "{\"z\":1,\"a\":\"x\"}"}},
       {"id": "j", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
      {"role": "tool", "tool_call_id": "i", "content": "rain"}, {"role": "tool", "tool_call_id": "j", "content": "sun"},
      {"role": "user", "content": "and?"}, {"role": "system", "content": "s"}, {"role": "assistant", "content": "It "}])"));
}

TEST_F(MessagesDoor, ALastMessageOfTheAssistantIsContinued) {
  const CompletionRequest continued =
      request("", R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well"}])");
  EXPECT_EQ(continued.prompts[0].ids, ids_of("user: Hi\nassistant: Well", SpecialTokens::none));
  EXPECT_EQ(request("").prompts[0].ids, ids_of("user: Hi\nassistant:", SpecialTokens::none));
  expect_error("", R"([{"role": "assistant", "content": [{"type": "tool_use", "id": "i", "name": "f", "input": {}}]}])",
               "messages", "results");
}

TEST_F(MessagesDoor, ToolsKeepTheOrderOfTheirSchemas) {
  use_agents_template();
  const std::string text = chat_text(std::string(kTools) + R"(, "tool_choice": {"type": "any",
      "disable_parallel_tool_use": true})");
  EXPECT_THAT(text, testing::HasSubstr(R"("properties":{"z":{"type":"integer"},"a":{"type":"string"}})"));
  const Json body = Json::parse(text);
  EXPECT_EQ(body["tool_choice"], "required");
  EXPECT_EQ(body["parallel_tool_calls"], false);
  EXPECT_EQ(body["tools"][0]["function"]["name"], "f");
  EXPECT_EQ(body["tools"][0]["function"]["description"], "d");
  EXPECT_EQ(chat(std::string(kTools) + R"(, "tool_choice": {"type": "tool", "name": "f"})")["tool_choice"],
            Json::parse(R"({"type": "function", "function": {"name": "f"}})"));
  EXPECT_NE(request(std::string(kTools) + R"(, "tool_choice": {"type": "any"})").answers->constraint, nullptr);
}

TEST_F(MessagesDoor, ThinkingIsTheSwitchOfATemplateThatHasOne) {
  const std::string off = R"("thinking": {"type": "disabled"})",
                    on = R"("thinking": {"type": "enabled", "budget_tokens": 1024})";
  EXPECT_FALSE(chat(off).contains("chat_template_kwargs")) << "the template reads no switch";
  use_agents_template();
  EXPECT_EQ(chat(off)["chat_template_kwargs"], Json::parse(R"({"enable_thinking": false})"));
  EXPECT_EQ(chat(on)["chat_template_kwargs"], Json::parse(R"({"enable_thinking": true})"));
  EXPECT_EQ(chat(off)["thinking_budget"], 0);
  EXPECT_EQ(chat(on)["thinking_budget"], 1024);
  EXPECT_EQ(chat(on + R"(, "thinking_budget": 7)")["thinking_budget"], 7);
  EXPECT_FALSE(chat(R"("thinking": {"type": "adaptive"})").contains("thinking_budget"));
  EXPECT_FALSE(chat("").contains("chat_template_kwargs"));
}

TEST_F(MessagesDoor, WhatIsNotSupportedIsNamed) {
  const auto user = [](const std::string& block) { return R"([{"role": "user", "content": [)" + block + "]}]"; };
  expect_refusal([&] { chat_body_of(model_, R"({"messages": []})", MessagesRoute::answer); }, 400, "max_tokens");
  expect_error("", "[]", "messages", "at least one");
  expect_error("", R"([{"role": "tool", "content": "a"}])", "messages[0].role", "user, assistant or system");
  expect_error("", R"([{"role": "user"}])", "messages[0].content", "blocks");
  for (const std::string type : {"image", "document", "server_tool_use", "tool_use", "thinking"}) {
    expect_error("", user(R"({"type": ")" + type + R"("})"), "messages[0].content[0].type", type);
  }
  expect_error("", user(R"({"type": "tool_result", "tool_use_id": "i", "content": [{"type": "image"}]})"),
               "messages[0].content[0].content[0].type", "image");
  expect_error("", user(R"({"type": "text", "text": "a", "citation": 1})"), "messages[0].content[0].citation",
               "did you mean citations?");
  expect_error(R"("tools": [{"type": "web_search_20250305", "name": "w"}])", kHi, "tools[0].type",
               "web_search_20250305");
  expect_error(R"("tools": [{"name": "w"}])", kHi, "tools[0].input_schema", "JSON Schema");
  expect_error(R"("tool_choice": {"type": "required"})", kHi, "tool_choice.type", "any");
  expect_error(R"("stop_sequence": ["a"])", kHi, "stop_sequence", "did you mean stop_sequences?");
  expect_error(R"("thinking": {"type": "on"})", kHi, "thinking.type", "enabled");
  expect_error(R"("mcp_servers": [{"url": "u"}])", kHi, "mcp_servers", "not supported");
  expect_error(R"("top_p": 2)", kHi, "top_p", "1");
  model_.unknown_fields = UnknownFields::ignore;
  EXPECT_FALSE(chat(R"("stop_sequence": ["a"])").contains("stop_sequence"));
}

TEST_F(MessagesDoor, AMessageHasATextAndItsUsage) {
  const CompletionRequest plain = request("");
  GenerateResult answer = result("Hello", FinishReason::length);
  answer.cached_tokens = 2;
  const auto n = plain.prompts[0].ids.size();
  Json expected = {{"id", "msg_1"},
                   {"type", "message"},
                   {"role", "assistant"},
                   {"model", "default"},
                   {"content", {{{"type", "text"}, {"text", "Hello"}}}},
                   {"stop_reason", "max_tokens"},
                   {"stop_sequence", nullptr},
                   {"usage",
                    {{"input_tokens", n - 2},
                     {"cache_read_input_tokens", 2},
                     {"cache_creation_input_tokens", 0},
                     {"output_tokens", answer.ids.size()}}}};
  EXPECT_EQ(whole(plain, answer), expected);
  GenerateResult stopped = result("Hello");
  EXPECT_EQ(whole(plain, stopped)["stop_reason"], "end_turn");
  stopped.stop_string = "x";
  EXPECT_EQ(whole(plain, stopped)["stop_reason"], "stop_sequence");
  EXPECT_EQ(whole(plain, stopped)["stop_sequence"], "x");
  EXPECT_EQ(whole(plain, result(""))["content"], Json::array());
}

TEST_F(MessagesDoor, BlocksAndEventsAreTheSameMessage) {
  use_agents_template();
  const CompletionRequest asked = request(kTools);
  ASSERT_NE(asked.answers, nullptr);
  const std::string call = R"(<c>{"name": "f", "arguments": {"z": 1, "a": "x"}}</c>)";
  const GenerateResult answer = result("<think>hm</think>Let me see." + call);
  const Json message = whole(asked, answer);
  ASSERT_EQ(message["content"].size(), 3U) << message;
  EXPECT_EQ(message["content"][0], Json::parse(R"({"type": "thinking", "thinking": "hm", "signature": ""})"));
  EXPECT_EQ(message["content"][1], Json::parse(R"({"type": "text", "text": "Let me see."})"));
  EXPECT_EQ(message["content"][2]["name"], "f");
  EXPECT_EQ(message["content"][2]["input"], Json::parse(R"({"z": 1, "a": "x"})"));
  EXPECT_EQ(message["stop_reason"], "tool_use");
  const std::vector<Json> all = events(asked, answer);
  EXPECT_EQ(all[0]["type"], "message_start");
  EXPECT_EQ(all[1]["type"], "ping");
  EXPECT_EQ(all.back()["type"], "message_stop");
  EXPECT_GT(message["usage"]["output_tokens_details"]["thinking_tokens"], 0);
  EXPECT_EQ(message_of(all), message);
}

/// Half of a call is no call. In a stream it has been told when it breaks off.
TEST_F(MessagesDoor, ACallThatBreaksOffIsLeftOut) {
  use_agents_template();
  const CompletionRequest asked = request(kTools);
  const GenerateResult broken = result(R"(<c>{"name": "f", "arguments": {"z": )", FinishReason::length);
  EXPECT_EQ(whole(asked, broken)["content"], Json::array());
  EXPECT_EQ(whole(asked, broken)["stop_reason"], "max_tokens");
}

TEST_F(MessagesDoor, ErrorsHaveTheTypesOfTheInterface) {
  const auto type = [](const ErrorKind& kind) {
    const Json error = messages_error(RequestError(kind, "a", "b"));
    EXPECT_EQ(error["type"], "error");
    EXPECT_EQ(error["error"]["message"], RequestError(kind, "a", "b").what());
    return error["error"]["type"].get<std::string>();
  };
  EXPECT_EQ(type(kInvalid), "invalid_request_error");
  EXPECT_EQ(type(kWrongKey), "authentication_error");
  EXPECT_EQ(type(kUnknownModel), "not_found_error");
  EXPECT_EQ(type(kBodyTooLarge), "request_too_large");
  EXPECT_EQ(type(kQueueFull), "rate_limit_error");
  EXPECT_EQ(type(kUnavailable), "overloaded_error");
  EXPECT_EQ(type(kFailed), "api_error");
  const CompletionRequest plain = request("");
  MessagesReply reply(model_, plain, "1");
  EXPECT_THAT(reply.error_event(RequestError(kFailed, "a", "b")), testing::StartsWith("event: error\ndata: {"));
  const RequestError refusal(kInvalid, "a", "b");
  EXPECT_EQ(find_route("/v1/messages")->door.error(refusal), messages_error(refusal));
  EXPECT_EQ(find_route("/v1/chat/completions")->door.error(refusal), refusal.to_json());
}

TEST_F(MessagesDoor, TokensAreCountedAsTheMessageCountsThem) {
  const std::string body = R"({"messages": [{"role": "user", "content": "Hi"}], "system": "Be kind"})";
  const Route& route = *find_route("/v1/messages/count_tokens");
  const Json counted = std::get<Route::Answer>(route.handler)(model_, {body, "", "1", 0, {}});
  EXPECT_EQ(counted, Json({{"input_tokens", request(R"("system": "Be kind")").prompts[0].ids.size()}}));
}

}  // namespace
}  // namespace vitrine::test
