// Codes in groups: packing and its inverse, and elements of rows, of ranges of columns, and of columns in another
// order.
#include "quant/groups.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace vitrine {
namespace {

constexpr DType kTypes[] = {DType::int2, DType::int3, DType::int4, DType::int8, DType::nf4, DType::fp4};

unsigned codes_of(DType type) {
  return type == DType::int2 ? 4 : type == DType::int3 ? 8 : type == DType::int8 ? 256 : 16;
}

TEST(Groups, PackingHasAnInverse) {
  std::mt19937 random(1);
  for (const DType type : kTypes) {
    std::uint8_t codes[kGroupBlock], back[kGroupBlock];
    for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(random() % codes_of(type));
    std::vector<std::byte> block(static_cast<std::size_t>(block_size(type).bytes));
    pack_codes(type, codes, block.data());
    unpack_codes(type, block.data(), back);
    EXPECT_TRUE(std::equal(codes, codes + kGroupBlock, back)) << name_of(type);
  }
}

TEST(Groups, BitsAreTakenFromWords) {
  const std::uint32_t words[4] = {0xB2345678, 0x10000009, 0x00000005, 0x00000002};  // two lines of two words
  std::uint8_t codes[16];
  const auto* const bytes = reinterpret_cast<const std::byte*>(words);
  take_bits(bytes, 8, 4, 4, 2, codes);
  EXPECT_EQ(codes[0], 7);
  EXPECT_EQ(codes[1], 0);
  take_bits(bytes, 8, 30, 3, 2, codes);  // bits 30, 31 and bit 0 of the word after
  EXPECT_EQ(codes[0], 0b110);
  EXPECT_EQ(codes[1], 0b000);
  take_nibbles(bytes, 2, {0, 2, 4, 6, 1, 3, 5, 7}, codes);
  EXPECT_EQ(codes[0], 8);
  EXPECT_EQ(codes[2], 7);
  EXPECT_EQ(codes[1], 4);
  EXPECT_EQ(codes[7], 0xB);
  EXPECT_EQ(codes[8], 9);
}

/// Rows of 80 codes in groups of 24: groups end within blocks, and rows do.
TEST(Groups, ElementsAreScaledByTheirGroup) {
  constexpr std::int64_t kRows = 3, kCols = 80, kRowSize = 96, kGroup = 24, kGroups = 4;
  std::mt19937 random(2);
  for (const DType type : kTypes) {
    for (const bool is_ordered : {true, false}) {
      const bool is_table = type == DType::nf4 || type == DType::fp4;
      std::vector<std::uint8_t> codes(kRows * kRowSize), zeros(kRows * kGroups);
      std::vector<std::byte> bytes(static_cast<std::size_t>(bytes_of(type, kRows * kRowSize)));
      for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(random() % codes_of(type));
      for (std::uint8_t& zero : zeros) zero = static_cast<std::uint8_t>(random() % codes_of(type));
      for (std::int64_t i = 0; i < kRows * kRowSize; i += kGroupBlock) {
        pack_codes(type, codes.data() + i, bytes.data() + bytes_of(type, i));
      }
      std::vector<float> scales(kRows * kGroups), values(16);
      for (float& scale : scales) scale = static_cast<float>(random() % 1000) / 8192.0f;
      for (float& value : values) value = static_cast<float>(random() % 1000) / 500.0f - 1.0f;
      std::vector<std::int32_t> places(kCols);
      for (std::int64_t c = 0; c < kCols; ++c)
        places[static_cast<std::size_t>(c)] = static_cast<std::int32_t>(c * 7 % kCols);
      const GroupTables groups = {is_table ? nullptr : zeros.data(), is_table ? values.data() : nullptr,
                                  is_ordered ? nullptr : places.data()};
      const BlockScales of = {reinterpret_cast<const std::byte*>(scales.data()), 1, kGroup, kGroups, 1, 0, 0, &groups};
      const MatrixView w = {bytes.data(), type, kRows, kCols, kRowSize, 1, of};
      const auto element = [&](std::int64_t r, std::int64_t c) {
        const std::int64_t at = is_ordered ? c : c * 7 % kCols;
        const auto group = static_cast<std::size_t>(r * kGroups + at / kGroup);
        const int code = codes[static_cast<std::size_t>(r * kRowSize + at)];
        return is_table ? values[static_cast<std::size_t>(code)] * scales[group]
                        : scales[group] * static_cast<float>(code - zeros[group]);
      };
      const auto expect = [&](const MatrixView& view, std::int64_t row, std::int64_t col) {
        for (std::int64_t r = 0; r < view.rows; ++r) {
          std::vector<float> y(static_cast<std::size_t>(view.cols));
          dequantize_groups(view, r, view.cols, y.data());
          for (std::int64_t c = 0; c < view.cols; ++c) {
            ASSERT_EQ(y[static_cast<std::size_t>(c)], element(row + r, col + c))
                << name_of(type) << ' ' << r << ' ' << c;
          }
        }
      };
      expect(w, 0, 0);
      expect(w.row_range(1, 2), 1, 0);
      expect(w.col_range(32, 40), 0, 32);
      expect(w.row_range(2, 1).col_range(45, 1), 2, 45);
    }
  }
}

TEST(Groups, AreTheTypesOfWholeNumbers) {
  EXPECT_EQ(integers_of(3), DType::int3);
  EXPECT_EQ(bytes_of(integers_of(2), 64), 16);
}

}  // namespace
}  // namespace vitrine
