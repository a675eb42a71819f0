// Descriptions of ops.
#include "ops/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "support/data.h"

namespace vitrine::test {
namespace {

TEST(Descriptions, NameTheFileThatRecordsTheOp) {
#define VITRINE_KIND(name) OpKind::name,
  for (const OpKind kind : {VITRINE_DESCRIBED_OPS(VITRINE_KIND)}) {
#undef VITRINE_KIND
    const OpDescription& description = description_of(kind);
    ASSERT_TRUE(description.is_given()) << name_of(kind);
    std::ifstream file(source_dir() + "/" + std::string(description.file));
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_THAT(text, testing::ContainsRegex("OpKind::" + std::string(name_of(kind)) + "[,}]")) << description.file;
  }
}

TEST(Descriptions, AnOpThatIsNeverShownHasNone) {
  EXPECT_EQ(name_of(OpKind::row_range), "row_range");
  EXPECT_FALSE(description_of(OpKind::row_range).is_given());
}

}  // namespace
}  // namespace vitrine::test
