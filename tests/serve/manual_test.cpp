// docs/serving.md lists every field of a request.
#include <gmock/gmock.h>

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

}  // namespace
}  // namespace vitrine::test
