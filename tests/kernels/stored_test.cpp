// Stored elements to float and back: all half-precision numbers, rounding of ties, and no access outside the arrays.
#include "kernels/kernel_testing.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMaxLength = 35;

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

/// What a half means; the instruction makes a signalling NaN of binary16 quiet.
float widened(std::uint16_t bits, DType dtype) {
  if (dtype == DType::bf16) return float_from_bf16(bits);
  const float value = float_from_f16(bits);
  return std::isnan(value) ? std::bit_cast<float>(bits_of(value) | 0x400000u) : value;
}

std::uint16_t narrowed(float x, DType dtype) { return dtype == DType::bf16 ? bf16_from_float(x) : f16_from_float(x); }

/// Floats near every rounding decision of the halves, and random ones.
std::vector<float> floats_to_round() {
  std::vector<float> out;
  for (std::uint32_t half = 0; half < 0x10000; half += 37) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const std::uint32_t bits = bits_of(widened(static_cast<std::uint16_t>(half), dtype));
      const std::uint32_t tie = dtype == DType::bf16 ? 0x8000u : 0x1000u;
      for (const std::uint32_t more : {0u, 1u, tie - 1, tie, tie + 1}) out.push_back(std::bit_cast<float>(bits + more));
    }
  }
  std::mt19937 random(9);
  for (int i = 0; i < 20'000; ++i) out.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (int i = 0; i < 5'000; ++i) {  // around the subnormals of binary16
    out.push_back(std::ldexp(static_cast<float>(random() % 4096) / 1024.0f, -static_cast<int>(random() % 12) - 14));
  }
  return out;
}

class StoredElements : public EachIsa {};

TEST_P(StoredElements, EveryHalfIsWidenedExactly) {
  std::vector<std::uint16_t> halves(0x10000);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> y(halves.size());
  for (const DType dtype : {DType::bf16, DType::f16}) {
    kernels().widen(reinterpret_cast<const std::byte*>(halves.data()), dtype, 0x10000, y.data());
    for (std::size_t i = 0; i < halves.size(); ++i) ASSERT_EQ(bits_of(y[i]), bits_of(widened(halves[i], dtype))) << i;
  }
}

TEST_P(StoredElements, EveryF8IsMultipliedByItsScale) {
  std::vector<std::byte> codes(256);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(float_from_f8_e4m3(0x7E), 448.0f);
  EXPECT_EQ(float_from_f8_e4m3(0x81), -0x1p-9f);
  EXPECT_EQ(float_from_f8_e4m3(0x38), 1.0f);
  EXPECT_TRUE(std::isnan(float_from_f8_e4m3(0xFF)));
  for (const float scale : {1.0f, 0.0123f, -3.7e-5f, 3e-41f, 1e35f, 0.0f, std::numeric_limits<float>::infinity()}) {
    std::vector<float> y(256), expected;
    for (std::size_t i = 0; i < 256; ++i) expected.push_back(float_from_f8_e4m3(static_cast<std::uint8_t>(i)) * scale);
    kernels().widen_f8(codes.data(), 256, &scale, 256, 0, y.data());
    EXPECT_TRUE(same_bits(y, expected)) << scale;
  }
}

/// Blocks of any length, from any place in the first of them.
TEST_P(StoredElements, EveryBlockOfF8HasItsScale) {
  std::mt19937 random(7);
  for (const std::int64_t block : {1, 3, 16, 24, 40, 128}) {
    for (const std::int64_t first : {0, 2, 17, 300}) {
      for (const std::int64_t n : {0, 1, 15, 16, 33, 70}) {
        std::vector<std::byte> codes(static_cast<std::size_t>(n));
        for (std::byte& code : codes) code = static_cast<std::byte>(random());
        std::vector<float> scales = numbers((first + n + block - 1) / block, Numbers::ordinary, 4), expected;
        for (std::int64_t i = 0; i < n; ++i) {
          expected.push_back(float_from_f8_e4m3(std::to_integer<std::uint8_t>(codes[static_cast<std::size_t>(i)])) *
                             scales[static_cast<std::size_t>((first + i) / block)]);
        }
        Guarded<std::byte> x{std::span<const std::byte>(codes)};
        Guarded<float> s{std::span<const float>(scales)}, y{static_cast<std::size_t>(n)};
        kernels().widen_f8(x.data(), n, s.data(), block, first, y.data());
        EXPECT_TRUE(same_bits(y.values(), expected)) << block << ' ' << first << ' ' << n;
      }
    }
  }
}

TEST_P(StoredElements, FloatsAreNarrowedToNearestEven) {
  const std::vector<float> x = floats_to_round();
  std::vector<std::uint16_t> y(x.size());
  for (const DType dtype : {DType::bf16, DType::f16}) {
    kernels().narrow(x.data(), static_cast<std::int64_t>(x.size()), dtype, reinterpret_cast<std::byte*>(y.data()));
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], narrowed(x[i], dtype)) << std::hexfloat << x[i];
  }
}

TEST_P(StoredElements, EveryLengthAndMisalignmentInsideTheArrays) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const auto size = static_cast<std::size_t>(size_of(dtype));
    for (std::size_t n = 0; n <= kMaxLength; ++n) {
      const std::vector<float> input = numbers(static_cast<std::int64_t>(n), Numbers::ordinary, 2);
      Guarded<float> x{std::span<const float>(input)};
      Guarded<std::byte> stored{n * size};
      Guarded<float> back{n};
      kernels().narrow(x.data(), static_cast<std::int64_t>(n), dtype, stored.data());
      kernels().widen(stored.data(), dtype, static_cast<std::int64_t>(n), back.data());
      std::vector<float> expected = input;
      for (float& v : expected) {
        if (dtype == DType::f16 || dtype == DType::bf16) v = widened(narrowed(v, dtype), dtype);
      }
      EXPECT_TRUE(same_bits(back.values(), expected)) << n;

      for (std::size_t shift = 0; shift < 4; ++shift) {  // bytes
        std::vector<std::byte> shifted((n + 1) * size + shift, std::byte{0x5A});
        kernels().narrow(input.data(), static_cast<std::int64_t>(n), dtype, shifted.data() + shift);
        EXPECT_TRUE(n == 0 || std::memcmp(shifted.data() + shift, stored.data(), n * size) == 0);
        EXPECT_EQ(shifted[shift + n * size], std::byte{0x5A}) << "written after the end";
        std::vector<float> again(n + 1, 7.0f);
        kernels().widen(shifted.data() + shift, dtype, static_cast<std::int64_t>(n), again.data());
        EXPECT_TRUE(same_bits(std::span(again).first(n), expected));
        EXPECT_EQ(again[n], 7.0f);
      }
    }
    kernels().narrow(nullptr, 0, dtype, nullptr);
    kernels().widen(nullptr, dtype, 0, nullptr);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, StoredElements, testing::ValuesIn(available_isas()), isa_test_name);

}  // namespace
}  // namespace vitrine
