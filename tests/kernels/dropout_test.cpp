// The factors of dropout: their definition in kernels.h, at every offset and length, and no write outside the array.
#include "base/rng.h"
#include "kernels/kernel_testing.h"

namespace vitrine {
namespace {

constexpr DropoutMask kMask = {{0x12345678u, 0x9ABCDEF0u}, {3, 77, 0xFFFFFFFFu}, 0x80000001u, 1.25f};

float factor_of(const DropoutMask& mask, std::int64_t element) {
  const auto& [a, b, c] = mask.counter;
  const auto bits = philox({static_cast<std::uint32_t>(element / 4), a, b, c}, {mask.key[0], mask.key[1]});
  return bits[static_cast<std::size_t>(element % 4)] < mask.limit ? 0.0f : mask.kept;
}

class DropoutKernel : public EachIsa {};

TEST_P(DropoutKernel, IsItsDefinitionAtEveryPlaceAndLength) {
  for (const std::int64_t origin : {std::int64_t{0}, std::int64_t{1000}, (std::int64_t{1} << 34) - 40}) {
    for (std::int64_t first = origin; first < origin + 5; ++first) {
      for (std::int64_t n = 0; n <= 135; ++n) {
        std::vector<float> expected(static_cast<std::size_t>(n));
        for (std::int64_t i = 0; i < n; ++i) expected[static_cast<std::size_t>(i)] = factor_of(kMask, first + i);
        Guarded<float> got(static_cast<std::size_t>(n));
        kernels().dropout_factors(kMask, first, n, got.data());
        ASSERT_TRUE(same_bits(got.values(), expected)) << "first=" << first << " n=" << n;
      }
    }
  }
}

TEST_P(DropoutKernel, TheLimitIsExact) {
  DropoutMask mask = kMask;
  const auto bits = philox({0, mask.counter[0], mask.counter[1], mask.counter[2]}, {mask.key[0], mask.key[1]});
  for (const std::uint32_t word : bits) {
    for (const std::uint32_t limit : {word, word + 1, 0u, 0xFFFFFFFFu}) {
      mask.limit = limit;
      float got[4];
      kernels().dropout_factors(mask, 0, 4, got);
      for (int i = 0; i < 4; ++i) EXPECT_EQ(got[i], factor_of(mask, i)) << limit;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, DropoutKernel, testing::ValuesIn(available_isas()), isa_test_name);

}  // namespace
}  // namespace vitrine
