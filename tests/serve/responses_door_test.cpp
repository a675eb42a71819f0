// OpenAI's Responses interface: its items, events and errors.
#include "serve/responses_door.h"
#include "serve/responses/custom_input.h"
#include "serve/routes.h"

namespace vitrine::test {
namespace {

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
  EXPECT_EQ(find_route("/v1/responses")->door.error(refusal), refusal.to_json());
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
