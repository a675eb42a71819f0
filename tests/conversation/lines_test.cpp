// Files of conversations as editors write them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/temp_folder.h"
#include "conversation/conversation.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

/// The lines of a file, with the numbers of the errors that would name them.
std::string lines_of(const std::string& text) {
  const TempFolder folder;
  write_file(folder / "f.jsonl", text);
  std::string all;
  for_each_line(folder / "f.jsonl", [&](std::string_view line, const std::string& where, std::int64_t number) {
    parse_conversation(line, where);
    all += std::to_string(number) + "=" + where.substr(where.rfind(' ') + 1) + " ";
  });
  return all;
}

TEST(ConversationFile, LinesMayEndAsOnWindowsAndBeBlank) {
  const std::string line = R"({"text": "🦙"})";
  EXPECT_EQ(lines_of(line + "\n" + line + "\n"), "0=1 1=2 ");
  EXPECT_EQ(lines_of(line + "\r\n\r\n  \r\n" + line), "0=1 1=4 ");
  EXPECT_EQ(lines_of("\xEF\xBB\xBF" + line + "\r\n" + line + "\r\n"), "0=1 1=2 ");
  EXPECT_EQ(lines_of(R"({"text": ")" + std::string(5 << 20, 'a') + "\"}\n" + line), "0=1 1=2 ");
}

TEST(ConversationFile, WhatIsNotJsonLinesIsRefused) {
  const auto message = [](const std::string& text) {
    try {
      return lines_of(text);
    } catch (const BadInput& e) {
      return std::string(e.what());
    }
  };
  EXPECT_THAT(message("[\n  {\"text\": \"a\"}\n]\n"), HasSubstr("jq"));
  EXPECT_THAT(message("\xEF\xBB\xBF"), HasSubstr("empty"));
  EXPECT_THAT(message("\n\r\n"), HasSubstr("empty"));
  EXPECT_THAT(message("{\"text\": \"a\"}\n\xEF\xBB\xBF{\"text\": \"b\"}\n"), HasSubstr("line 2")) << "a mark within";
  EXPECT_THAT(message("{\"text\": \"\xFF\"}\n"), HasSubstr("line 1"));
}

}  // namespace
}  // namespace vitrine::test
