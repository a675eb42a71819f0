#include "base/text.h"

#include <gmock/gmock.h>

#include <cstdint>

namespace vitrine::test {
namespace {

using testing::ElementsAre;

TEST(NumberIn, ReadsATextThatIsWhollyANumber) {
  EXPECT_EQ(number_in<std::int32_t>("-12"), -12);
  EXPECT_EQ(number_in<double>("2.5e3"), 2500.0);
  for (const char* text : {"", " 1", "1 ", "+1", "0x1", "1.5", "3000000000", "one"}) {
    EXPECT_EQ(number_in<std::int32_t>(text), std::nullopt) << text;
  }
  EXPECT_EQ(number_in<std::uint64_t>("-1"), std::nullopt);
}

TEST(Split, GivesAPartBeforeBetweenAndAfterTheSeparators) {
  EXPECT_THAT(split("a,,bc", ','), ElementsAre("a", "", "bc"));
  EXPECT_THAT(split("a,", ','), ElementsAre("a", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

}  // namespace
}  // namespace vitrine::test
