// Conversations: their files, exchanges, and what is taken back or left out.
#include "chat/chat_history.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/temp_folder.h"

namespace vitrine::test {
namespace {

ChatHistory some() {
  ChatHistory c;
  c.set_system("be brief");
  for (const char* n : {"1", "2", "3"}) {
    c.add("user", std::string("q") + n);
    c.add("assistant", std::string("a") + n);
  }
  return c;
}

std::string contents(const ChatHistory& c) {
  std::string all;
  for (const OrderedJson& m : c.messages()) all += (all.empty() ? "" : " ") + m["content"].get<std::string>();
  return all;
}

TEST(ChatHistory, TheSystemPromptIsTheFirstMessage) {
  ChatHistory c = some();
  EXPECT_EQ(c.system(), "be brief");
  c.set_system("x");
  EXPECT_EQ(contents(c), "x q1 a1 q2 a2 q3 a3");
  c.set_system("");
  EXPECT_EQ(contents(c), "q1 a1 q2 a2 q3 a3");
  EXPECT_EQ(c.system(), "");
}

TEST(ChatHistory, UndoRemovesAnExchange) {
  ChatHistory c = some();
  EXPECT_EQ(c.undo(), 2);
  EXPECT_EQ(contents(c), "be brief q1 a1 q2 a2");
  EXPECT_TRUE(c.take_back_answer());
  EXPECT_EQ(contents(c), "be brief q1 a1 q2");
  EXPECT_EQ(c.undo(), 1);
  EXPECT_EQ(c.undo(), 2);
  EXPECT_EQ(c.undo(), 0);
  EXPECT_FALSE(c.take_back_answer());
  EXPECT_EQ(contents(c), "be brief");
}

TEST(ChatHistory, OldExchangesAreLeftOutWholeAndTheSystemPromptNever) {
  ChatHistory c = some();
  EXPECT_EQ(c.n_exchanges(), 3);
  EXPECT_EQ(contents(c.without_first(0)), contents(c));
  EXPECT_EQ(contents(c.without_first(1)), "be brief q2 a2 q3 a3");
  EXPECT_EQ(contents(c.without_first(2)), "be brief q3 a3");
  const ChatHistory tools = ChatHistory::parse(
      R"([{"role":"user","content":"q"},{"role":"assistant","content":"call"},{"role":"tool","content":"r"},
          {"role":"assistant","content":"a"},{"role":"developer","content":"d"},{"role":"user","content":"q2"}])",
      "test");
  EXPECT_EQ(contents(tools.without_first(1)), "d q2");
}

TEST(ChatHistory, KeysKeepTheirOrderAndNumbersTheirKind) {
  const ChatHistory c = ChatHistory::parse(
      R"({"tools":[{"b":1,"a":1.0}],"messages":[{"role":"user","z":1,"content":"\u00e9","a":2.50}]})", "test");
  EXPECT_EQ(c.messages().dump(), "[{\"role\":\"user\",\"z\":1,\"content\":\"\u00e9\",\"a\":2.5}]");
  EXPECT_EQ(c.tools().dump(), R"([{"b":1,"a":1.0}])");
}

TEST(ChatHistory, BrokenFilesAreErrors) {
  for (const char* text : {"", "{", "3", "null", "{}", R"({"messages":3})", R"({"messages":null})", "[3]", "[{}]",
                           R"([{"role":3}])", R"([{"content":"x"}])", "[{\"role\":\"user\",\"x\":NaN}]"}) {
    EXPECT_THROW(ChatHistory::parse(text, "test"), BadInput) << text;
  }
  EXPECT_THROW(ChatHistory::open("/no/such/file"), BadInput);
  EXPECT_THROW(ChatHistory::open("/"), BadInput);
  EXPECT_THROW(some().save("/no/such/folder/file"), BadInput);
}

TEST(ChatHistory, FilesHaveTheSameMessages) {
  const TempFolder folder;
  const std::string path = folder / "conversation.json";
  ChatHistory c = some();
  c.add("user", "\xF0\x9F\xA6\x99");
  c.save(path);
  EXPECT_EQ(ChatHistory::open(path).messages(), c.messages());
  write_file(path, "\xEF\xBB\xBF" + read_file(path));  // as some editors save it
  EXPECT_EQ(ChatHistory::open(path).messages(), c.messages());
  c.add("assistant", "half a character: \xF0\x9F");
  c.save(path);
  EXPECT_EQ(ChatHistory::open(path).messages().back()["content"], "half a character: \uFFFD");
}

}  // namespace
}  // namespace vitrine::test
