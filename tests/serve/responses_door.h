// For tests of the Responses interface: its requests, and its responses to texts.
#pragma once

#include "serve/responses/reply.h"
#include "serve/responses/request.h"
#include "serve/served.h"
#include "tokenizer/utf8.h"

namespace vitrine::test {

class ResponsesDoor : public ServedModelTest {
 protected:
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

}  // namespace vitrine::test
