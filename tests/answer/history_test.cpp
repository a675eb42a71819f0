// Conversations with calls and results, in the form that a template reads.
#include "answer/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "answer/learn.h"
#include "base/mapped_file.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

using answer::AnswerFormat;
using answer::history_as_read;

AnswerFormat format(bool text_arguments, bool null_content = false) {
  AnswerFormat made;
  made.calls.emplace().form = {text_arguments, null_content};
  return made;
}

OrderedJson read(const std::string& messages, const AnswerFormat& by = format(false)) {
  return history_as_read(OrderedJson::parse(messages), by);
}

std::string with_arguments(const std::string& arguments) {
  return R"([{"role": "assistant", "tool_calls": [{"id": "i", "function": {"name": "f", "arguments": )" + arguments +
         "}}]}]";
}

TEST(HistoryAsRead, ArgumentsAreWhatTheTemplateReads) {
  const auto arguments = [](const std::string& given, bool as_text) {
    return read(with_arguments(given), format(as_text))[0]["tool_calls"][0]["function"]["arguments"].dump();
  };
  EXPECT_EQ(arguments(R"("{\"b\": 1, \"a\": [2]}")", false), R"({"b":1,"a":[2]})");
  EXPECT_EQ(arguments(R"({"b": 1, "a": [2, "x"]})", true), R"("{\"b\": 1, \"a\": [2, \"x\"]}")");
  for (const char* none : {"null", "\"\"", "{}", "\"{}\""}) {
    EXPECT_EQ(arguments(none, false), "{}") << none;
    EXPECT_EQ(arguments(none, true), "\"{}\"") << none;
  }
  EXPECT_EQ(arguments("\"not json\"", false), R"({"arguments":"not json"})");
  EXPECT_EQ(arguments("\"[1]\"", false), R"({"arguments":"[1]"})");
  EXPECT_EQ(arguments("\"not json\"", true), "\"not json\"");
}

TEST(HistoryAsRead, ContentsAndCallsThatAreNotThere) {
  EXPECT_EQ(read(R"([{"role": "assistant", "content": null, "tool_calls": []}])").dump(),
            R"([{"role":"assistant","content":""}])");
  EXPECT_EQ(read(R"([{"role": "user"}])").dump(), R"([{"role":"user","content":""}])");
  EXPECT_EQ(read(with_arguments("{}"), format(false, true))[0]["content"], nullptr);
  EXPECT_EQ(read(with_arguments("{}"))[0]["content"], "");
  EXPECT_EQ(read(with_arguments("{}"))[0]["tool_calls"][0]["type"], "function");
}

TEST(HistoryAsRead, ResultsHaveTheNameOfTheirCall) {
  const OrderedJson messages = read(
      R"([{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f"}}, {"id": "b", "function": {"name": "g"}}]},
          {"role": "tool", "tool_call_id": "b", "content": "2"}, {"role": "tool", "tool_call_id": "a", "content": null},
          {"role": "tool", "tool_call_id": "c", "content": "3", "name": "own"}])");
  EXPECT_EQ(messages[1]["name"], "g");
  EXPECT_EQ(messages[2]["name"], "f");
  EXPECT_EQ(messages[2]["content"], "");
  EXPECT_EQ(messages[3]["name"], "own");
}

TEST(HistoryAsRead, FunctionsOfOldClientsAreCalls) {
  const OrderedJson messages =
      read(R"([{"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{\"a\": 1}"}},
               {"role": "function", "name": "f", "content": "rain"}])");
  EXPECT_EQ(messages[0]["tool_calls"][0]["function"].dump(), R"({"name":"f","arguments":{"a":1}})");
  EXPECT_EQ(messages[1]["role"], "tool");
  EXPECT_EQ(messages[1]["tool_call_id"], messages[0]["tool_calls"][0]["id"]);
}

TEST(HistoryAsRead, DevelopersAreKnownOrSystem) {
  AnswerFormat knows = format(false);
  knows.knows_developer = true;
  EXPECT_EQ(read(R"([{"role": "developer", "content": "x"}])", knows)[0]["role"], "developer");
  EXPECT_EQ(read(R"([{"role": "developer", "content": "x"}])")[0]["role"], "system");
}

/// Conversations of all shapes render in published templates, or are refused by the template itself.
TEST(HistoryAsRead, PublishedTemplates) {
  const std::string path = outside_data("agents/histories.jsonl"), folder = outside_data("tuning/templates");
  if (path.empty() || folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no agents";
  for (const char* name :
       {"lc__Qwen-Qwen3-0.6B", "lc__GLM-4.6", "trl__diffusion_gemma", "lc__deepseek-ai-DeepSeek-V3.1",
        "mj__Qwen-Qwen3-Coder-30B-A3B-Instruct", "lc__MiniMax-M3"}) {
    const std::string source(MappedFile::open_or_read(folder + "/" + name + ".jinja")->text());
    const ChatTemplate parsed(source);
    const std::vector<std::pair<std::string, std::string>> special = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    const AnswerFormat learned = answer::learn_format({&parsed, &parsed, source, special, {}});
    std::istringstream lines{std::string(MappedFile::open_or_read(path)->text())};
    std::int64_t n = 0;
    for (std::string line; std::getline(lines, line); ++n) {
      OrderedJson given = OrderedJson::parse(line);
      for (OrderedJson& message : given) {  // as the server reads contents
        if (!message.contains("content") || !message["content"].is_array()) continue;
        std::string text;
        for (const OrderedJson& part : message["content"]) text += part.value("text", "");
        message["content"] = text;
      }
      const TemplateData messages = TemplateData::parse(history_as_read(given, learned).dump(), name);
      TemplateInput input;
      input.messages = &messages.value();
      input.special_tokens = special;
      EXPECT_NO_THROW(parsed.render(input)) << name << ": " << line;
    }
    EXPECT_EQ(n, 80);
  }
}

}  // namespace
}  // namespace vitrine::test
