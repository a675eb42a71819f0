#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/rng.h"

namespace vitrine::test {
namespace {

/// The compiler's own conversion, in software or by F16C.
std::uint16_t compilers_f16(float value) { return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value)); }

bool is_nan_f16(std::uint16_t bits) { return (bits & 0x7FFF) > 0x7C00; }
bool is_nan_bf16(std::uint16_t bits) { return (bits & 0x7FFF) > 0x7F80; }

TEST(F16, EveryPatternSurvivesTheRoundTrip) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = float_from_f16(bits);
    if (is_nan_f16(bits)) {
      ASSERT_TRUE(std::isnan(value)) << i;
      ASSERT_TRUE(is_nan_f16(f16_from_float(value))) << i;
      ASSERT_EQ(std::signbit(value), bits >= 0x8000) << i;
      continue;
    }
    ASSERT_EQ(f16_from_float(value), bits) << i;
    const float compilers = static_cast<float>(std::bit_cast<_Float16>(bits));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(compilers)) << i;
  }
}

TEST(Bf16, EveryPatternSurvivesTheRoundTrip) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = float_from_bf16(bits);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), i << 16);
    ASSERT_EQ(std::isnan(value), is_nan_bf16(bits)) << i;
    if (is_nan_bf16(bits)) {
      ASSERT_TRUE(is_nan_bf16(bf16_from_float(value))) << i;
    } else {
      ASSERT_EQ(bf16_from_float(value), bits) << i;
    }
  }
}

void expect_f16_as_compilers(float value) {
  for (const float x : {value, -value}) {
    ASSERT_EQ(f16_from_float(x), compilers_f16(x)) << std::hexfloat << x << " " << std::bit_cast<std::uint32_t>(x);
  }
}

/// For each pair of neighbors: both, the tie between them, and the floats adjacent to all three.
TEST(F16, RoundsAtEveryTieAsTheCompilerDoes) {
  for (std::uint16_t bits = 0; bits < 0x7C00; ++bits) {
    const float low = float_from_f16(bits);
    const float high = bits == 0x7BFF ? 65536.0f : float_from_f16(static_cast<std::uint16_t>(bits + 1));
    const float tie = low + (high - low) / 2;
    for (const float x : {low, tie, high}) {
      expect_f16_as_compilers(x);
      expect_f16_as_compilers(std::nextafter(x, -1.0f));
      expect_f16_as_compilers(std::nextafter(x, INFINITY));
    }
  }
}

TEST(F16, RoundsAnyFloatAsTheCompilerDoes) {
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    const auto bits = static_cast<std::uint32_t>(uniform(5, 0, i) * 4294967296.0);
    const float x = std::bit_cast<float>(bits);
    if (std::isnan(x)) {
      ASSERT_TRUE(is_nan_f16(f16_from_float(x))) << bits;
    } else {
      expect_f16_as_compilers(x);
    }
  }
  using Limits = std::numeric_limits<float>;
  for (const float x :
       {0.0f, Limits::denorm_min(), Limits::min(), Limits::max(), Limits::infinity(), 65504.0f, 65519.996f, 65520.0f,
        5.9604645e-8f, 2.9802322e-8f, 2.9802326e-8f, 6.1035156e-5f, 6.097555e-5f}) {
    expect_f16_as_compilers(x);
  }
}

TEST(F16, ANanWithALowPayloadStaysANan) {
  for (const std::uint32_t bits : {0x7F800001u, 0xFF800001u, 0x7F801FFFu, 0x7FFFFFFFu}) {
    const std::uint16_t half = f16_from_float(std::bit_cast<float>(bits));
    EXPECT_TRUE(is_nan_f16(half)) << bits;
    EXPECT_EQ(half >> 15, bits >> 31);
    EXPECT_TRUE(is_nan_bf16(bf16_from_float(std::bit_cast<float>(bits)))) << bits;
  }
}

TEST(Bf16, RoundsToNearestTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7F80; ++bits) {
    const auto even = static_cast<std::uint16_t>(bits % 2 == 0 ? bits : bits + 1);
    for (const std::uint32_t sign : {0u, 0x8000u}) {
      const auto rounded = [&](std::uint32_t low) {
        return bf16_from_float(std::bit_cast<float>((sign | bits) << 16 | low));
      };
      ASSERT_EQ(rounded(0x0000), sign | bits);
      ASSERT_EQ(rounded(0x0001), sign | bits);
      ASSERT_EQ(rounded(0x7FFF), sign | bits);
      ASSERT_EQ(rounded(0x8000), sign | even);
      ASSERT_EQ(rounded(0x8001), sign | (bits + 1));
      ASSERT_EQ(rounded(0xFFFF), sign | (bits + 1)) << "beyond the largest: infinity";
    }
  }
}

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::f32), 4);
  EXPECT_EQ(size_of(DType::f16), 2);
  EXPECT_EQ(size_of(DType::bf16), 2);
  EXPECT_EQ(name_of(DType::f32), "f32");
  EXPECT_EQ(name_of(DType::f16), "f16");
  EXPECT_EQ(name_of(DType::bf16), "bf16");
}

}  // namespace
}  // namespace vitrine::test
