// docs/serving.md lists every field of a request.
#include <gmock/gmock.h>

#include <regex>

#include "base/temp_folder.h"
#include "generate/options.h"
#include "serve/foreign_fields.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

TEST(Manual, ListsEveryFieldOfRequests) {
  const std::string manual = read_file(source_dir() + "/docs/serving.md");
  for (const ForeignField& field : foreign_fields()) {
    EXPECT_THAT(manual, testing::HasSubstr("`" + std::string(field.name) + "`"));
  }
  for (const OptionRow& row : option_rows()) {
    if (!row.is_in(kInServer)) continue;
    EXPECT_THAT(manual, testing::HasSubstr("`" + std::string(row.field_name()) + "`"));
    for (const char* name : row.other_fields) EXPECT_THAT(manual, testing::HasSubstr("`" + std::string(name) + "`"));
  }
}

/// The lists of fields that have no effect and of those that are refused are exactly those of the table.
TEST(Manual, SaysWhatTheFieldsOfOtherServersDo) {
  const std::string manual = read_file(source_dir() + "/docs/serving.md");
  const auto part = [&](const std::string& from, const std::string& to) {
    const std::size_t first = manual.find(from);
    return manual.substr(first, manual.find(to, first) - first);
  };
  const std::string without = part("These have no effect", "These are accepted"),
                    refused = part("These are accepted", "###");
  for (const ForeignField& field : foreign_fields()) {
    const std::string name = "`" + std::string(field.name) + "`";
    EXPECT_THAT(field.refusal.empty() ? without : refused, testing::HasSubstr(name));
  }
  const std::regex names("`([a-z_.]+)`");
  for (auto at = std::sregex_iterator(without.begin(), without.end(), names); at != std::sregex_iterator(); ++at) {
    const auto is_it = [&](const ForeignField& field) { return field.name == (*at)[1].str() && field.refusal.empty(); };
    EXPECT_TRUE(std::any_of(foreign_fields().begin(), foreign_fields().end(), is_it)) << (*at)[1];
  }
}

}  // namespace
}  // namespace vitrine::test
