// Masks: the number of visible positions is the sum over the queries.
#include "ops/mask.h"

#include <gtest/gtest.h>

namespace vitrine::test {
namespace {

TEST(Mask, CountsWhatIsVisible) {
  const Mask masks[] = {{}, {Mask::Kind::causal, 5}, {Mask::Kind::causal, 5, true}, {Mask::Kind::causal, 1, true}};
  for (const Mask& mask : masks) {
    for (const std::int64_t position : {0, 3, 5, 9}) {
      for (const std::int64_t n : {1, 4, 17}) {
        double sum = 0;
        for (std::int64_t t = position; t < position + n; ++t) {
          sum += static_cast<double>(mask.visible(t, position + n).size());
        }
        EXPECT_EQ(mask.count_visible(position, n, position + n), sum) << position << " " << n;
      }
    }
  }
}

TEST(Mask, AChunkBeginsAtEachMultipleOfItsSize) {
  const Mask mask{Mask::Kind::causal, 5, true};
  EXPECT_EQ(mask.visible(4, 20).begin, 0);
  EXPECT_EQ(mask.visible(5, 20).begin, 5);
  EXPECT_EQ(mask.visible(9, 20).begin, 5);
  EXPECT_EQ(mask.visible(9, 20).end, 10);
}

}  // namespace
}  // namespace vitrine::test
