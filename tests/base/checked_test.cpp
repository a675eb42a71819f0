#include "base/checked.h"

#include <gtest/gtest.h>

#include <vector>

namespace vitrine::test {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

TEST(Checked, AgreesWithWideArithmetic) {
  const std::int64_t values[] = {kLeast, kLeast + 1, -3037000500, -2,         -1,         0,        1,        2,
                                 3,      65537,      2147483647,  3037000499, 3037000500, kMax / 2, kMax - 1, kMax};
  for (const std::int64_t a : values) {
    for (const std::int64_t b : values) {
      const __int128 product = static_cast<__int128>(a) * b, sum = static_cast<__int128>(a) + b;
      const bool allowed = a >= 0 && b >= 0;
      EXPECT_EQ(checked_mul(a, b).has_value(), allowed && product <= kMax) << a << " * " << b;
      EXPECT_EQ(checked_add(a, b).has_value(), allowed && sum <= kMax) << a << " + " << b;
      EXPECT_EQ(checked_mul(a, b).value_or(0), allowed && product <= kMax ? static_cast<std::int64_t>(product) : 0);
      EXPECT_EQ(checked_add(a, b).value_or(0), allowed && sum <= kMax ? static_cast<std::int64_t>(sum) : 0);
    }
  }
}

TEST(Checked, Product) {
  const auto product = [](std::vector<std::int64_t> sizes) { return checked_product(sizes); };
  EXPECT_EQ(product({}), 1);
  EXPECT_EQ(product({7}), 7);
  EXPECT_EQ(product({2, 3, 4}), 24);
  EXPECT_EQ(product({kMax, 1, 1}), kMax);
  EXPECT_EQ(product({kMax, 2}), std::nullopt);
  EXPECT_EQ(product({std::int64_t{1} << 32, std::int64_t{1} << 31}), std::nullopt);
  EXPECT_EQ(product({kMax, kMax, 0}), 0) << "a tensor without elements, whatever its other sizes";
  EXPECT_EQ(product({0, kMax, kMax}), 0);
  EXPECT_EQ(product({0, -1}), std::nullopt);
  EXPECT_EQ(product({-1, -1}), std::nullopt);
  EXPECT_EQ(product({kLeast}), std::nullopt);
}

TEST(Checked, RoundUp) {
  EXPECT_EQ(round_up(0, 64), 0);
  EXPECT_EQ(round_up(1, 64), 64);
  EXPECT_EQ(round_up(64, 64), 64);
  EXPECT_EQ(round_up(65, 64), 128);
}

}  // namespace
}  // namespace vitrine::test
