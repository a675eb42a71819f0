// Which tokens a marked span covers.
#include "conversation/token_spans.h"

#include <gmock/gmock.h>

namespace vitrine::test {
namespace {

TEST(TokenSpans, AMarkedFirstTokenIsLearnedAlone) {
  const std::string text = "aquestion twob";
  const std::vector<std::size_t> ends = {1, 9, 13, 14};
  std::vector<std::uint8_t> learned(ends.size());
  learn_span(text, 0, 1, ends, learned);
  EXPECT_THAT(learned, testing::ElementsAre(1, 0, 0, 0));
  learn_span(text, 13, 14, ends, learned);
  EXPECT_THAT(learned, testing::ElementsAre(1, 0, 0, 1));
}

}  // namespace
}  // namespace vitrine::test
