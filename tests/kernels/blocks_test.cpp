// Products with quantized matrices: every instruction set gives the bits of the scalar table, for any number of rows,
// and the scalar table computes what its definition says.
#include <algorithm>

#include "kernels/kernel_testing.h"
#include "quant/block_format.h"
#include "quant/groups.h"

namespace vitrine {
namespace {

constexpr DType kFormats[] = {DType::q8_0,   DType::q4_0,   DType::q4_1, DType::q5_0, DType::q5_1,
                              DType::q2_k,   DType::q3_k,   DType::q4_k, DType::q5_k, DType::q6_k,
                              DType::iq4_nl, DType::iq4_xs, DType::mxfp4};

/// Where a block's half-precision numbers are.
std::vector<std::size_t> halves_of(DType dtype) {
  switch (dtype) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108};
    case DType::q6_k:
      return {208};
    case DType::mxfp4:
      return {};
    default:
      return {0};
  }
}

enum class Bytes { random, all_zero, all_one, top_bit, all_but_top };

/// Blocks of arbitrary or extreme bytes, with scales close to 1/100 unless `wild`, where they are arbitrary, too.
std::vector<std::byte> blocks(DType dtype, std::int64_t n, Bytes kind, bool wild, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(static_cast<std::size_t>(bytes_of(dtype, n)));
  for (std::byte& b : bytes) {
    const int extreme = kind == Bytes::all_zero ? 0 : kind == Bytes::all_one ? 255 : kind == Bytes::top_bit ? 128 : 127;
    b = static_cast<std::byte>(kind == Bytes::random ? static_cast<int>(random() % 256) : extreme);
  }
  if (wild) return bytes;
  for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(block_size(dtype).bytes)) {
    if (dtype == DType::mxfp4) bytes[at] = static_cast<std::byte>(118 + random() % 6);  // an exponent
    for (const std::size_t half : halves_of(dtype)) {
      const float scale = (static_cast<float>(random() % 1000) - 400.0f) / 50000.0f;
      const std::uint16_t bits = f16_from_float(scale);
      std::memcpy(bytes.data() + at + half, &bits, sizeof bits);
    }
  }
  return bytes;
}

MatrixView view(DType dtype, const std::byte* data, std::int64_t rows, std::int64_t cols) {
  return {data, dtype, rows, cols, cols, 1};
}

std::vector<RoundedPart> rounded(const Kernels& k, const std::vector<float>& x, DType w) {
  std::vector<RoundedPart> parts(x.size() / 32);
  k.blocks.round_to_int8(x.data(), static_cast<std::int64_t>(x.size()), w, parts.data());
  return parts;
}

std::vector<float> product(const Kernels& k, const std::vector<RoundedPart>& x, std::int64_t tokens,
                           const MatrixView& w) {
  std::vector<float> y(static_cast<std::size_t>(tokens * w.rows), 7.0f);
  std::vector<float> scratch(kScratchFloats);
  k.blocks.multiply(x.data(), tokens, w, y.data(), w.rows, scratch.data());
  return y;
}

class Blocks : public EachIsa {};

TEST_P(Blocks, RoundToTheNearestOfAllScales) {
  for (const Numbers kind : {Numbers::ordinary, Numbers::tiny, Numbers::special}) {
    const std::vector<float> x = numbers(32 * 40, kind, 3);
    const std::vector<RoundedPart> parts = rounded(kernels(), x, DType::q8_0);
    for (std::size_t b = 0; b < parts.size(); ++b) {
      const std::span<const float> from(x.data() + 32 * b, 32);
      const RoundedPart& part = parts[b];
      float largest = 0;
      bool finite = true;
      for (const float value : from) largest = std::max(largest, std::abs(value)), finite &= std::isfinite(value) != 0;
      if (!finite) {
        EXPECT_TRUE(std::isnan(part.scale));
        continue;
      }
      const bool negligible = largest < 0x1p-100f;
      EXPECT_EQ(part.scale, negligible ? 0.0f : largest / 127.0f);
      for (std::size_t i = 0; i < 32; ++i) {
        const float factor = negligible ? 0.0f : 127.0f / largest;
        EXPECT_EQ(part.q[i], static_cast<int>(std::nearbyint(from[i] * factor)));
        EXPECT_GE(part.q[i], -127);
      }
    }
  }
}

TEST_P(Blocks, MultiplyLikeTheDequantizedMatrix) {
  const Kernels& k = kernels();
  for (const DType dtype : kFormats) {
    const std::int64_t rows = 21, cols = 512, tokens = 3;
    const std::vector<std::byte> bytes = blocks(dtype, rows * cols, Bytes::random, false, 5);
    const std::vector<float> x = numbers(tokens * cols, Numbers::ordinary, 6);
    const std::vector<RoundedPart> parts = rounded(k, x, dtype);
    const std::vector<float> y = product(k, parts, tokens, view(dtype, bytes.data(), rows, cols));
    std::vector<float> w(static_cast<std::size_t>(cols));
    for (std::int64_t r = 0; r < rows; ++r) {
      dequantize_row(dtype, bytes.data() + bytes_of(dtype, r * cols), cols, w.data());
      for (std::int64_t t = 0; t < tokens; ++t) {
        double expected = 0, size = 0;
        for (std::int64_t i = 0; i < cols; ++i) {
          const RoundedPart& part = parts[static_cast<std::size_t>((t * cols + i) / 32)];
          const double term =
              static_cast<double>(part.scale) * part.q[i % 32] * static_cast<double>(w[static_cast<std::size_t>(i)]);
          expected += term, size += std::abs(term);
        }
        EXPECT_NEAR(y[static_cast<std::size_t>(t * rows + r)], expected, 1e-6 * size) << name_of(dtype);
      }
    }
  }
}

TEST_P(Blocks, GiveTheBitsOfTheScalarTable) {
  const Kernels &scalar = kernels_for(Isa::scalar), &k = kernels();
  std::uint32_t seed = 10;
  for (const DType dtype : kFormats) {
    const std::int64_t unit = block_size(dtype).elements;
    for (const std::int64_t cols : {unit, 3 * unit, std::int64_t{2304}}) {
      for (const std::int64_t rows : {1, 7, 8, 16, 17, 61, 150}) {
        for (const Bytes kind : {Bytes::random, Bytes::all_one, Bytes::top_bit, Bytes::all_zero, Bytes::all_but_top}) {
          if (kind != Bytes::random && (rows != 17 || cols == 2304)) continue;
          const std::vector<std::byte> bytes = blocks(dtype, rows * cols, kind, rows == 7, ++seed);
          Guarded<std::byte> w(bytes);  // ends at an inaccessible page, and is aligned to nothing
          for (const std::int64_t tokens : {1, 2, 5, 13, 40}) {
            if (cols == 2304 && rows > 17 && tokens > 5) continue;
            std::vector<float> x = numbers(tokens * cols, Numbers::ordinary, ++seed);
            if (kind != Bytes::random) {
              for (float& value : x) value = value < 0 ? -1.0f : 1.0f;  // as large as rounded numbers can be
            }
            if (rows == 8) x = numbers(tokens * cols, Numbers::special, seed);
            const MatrixView m = view(dtype, w.data(), rows, cols);
            ASSERT_TRUE(same_bits(product(k, rounded(k, x, dtype), tokens, m),
                                  product(scalar, rounded(scalar, x, dtype), tokens, m)))
                << name_of(dtype) << ' ' << rows << " x " << cols << ", " << tokens << " rows of x";
          }
        }
      }
    }
  }
}

/// mxfp4_pairs is another layout of mxfp4: the products have the same bits, and so has every second row of a matrix.
TEST_P(Blocks, Mxfp4InPairsHasTheBitsOfMxfp4) {
  const Kernels& k = kernels();
  std::uint32_t seed = 70;
  for (const std::int64_t cols : {32, 96, 2304}) {
    for (const std::int64_t rows : {1, 7, 8, 16, 17, 61, 150}) {
      const std::int64_t n = 2 * rows * cols / 32;  // blocks of twice as many rows
      std::mt19937 random(++seed);
      std::vector<std::byte> pairs(static_cast<std::size_t>(16 * n)), exponents(static_cast<std::size_t>(n));
      for (std::byte& b : pairs) b = static_cast<std::byte>(random());
      for (std::byte& e : exponents) e = static_cast<std::byte>(rows == 7 ? random() : 118 + random() % 6);
      std::vector<std::byte> blocks(static_cast<std::size_t>(17 * n));
      copy_mxfp4(pairs.data(), exponents.data(), 32 * n, blocks.data());
      Guarded<std::byte> w{std::span<const std::byte>(pairs)}, scales{std::span<const std::byte>(exponents)};
      std::vector<float> floats(static_cast<std::size_t>(32 * n)), other(floats.size());
      dequantize_row(DType::mxfp4, blocks.data(), 32 * n, floats.data());
      dequantize_row(DType::mxfp4_pairs, w.data(), 32 * n, other.data(), scales.data());
      ASSERT_TRUE(same_bits(other, floats));
      for (const std::int64_t step : {1, 2}) {
        const MatrixView of_blocks = {blocks.data(), DType::mxfp4, rows, cols, step * cols, 1};
        const BlockScales of_pairs = {scales.data(), 1, 32, step * cols / 32, 1};
        const MatrixView m = {w.data(), DType::mxfp4_pairs, rows, cols, step * cols, 1, of_pairs};
        for (const std::int64_t tokens : {1, 2, 5, 13, 40}) {
          if (cols == 2304 && rows > 17 && tokens > 5) continue;
          const std::vector<float> x = numbers(tokens * cols, Numbers::ordinary, ++seed);
          ASSERT_TRUE(same_bits(product(k, rounded(k, x, m.dtype), tokens, m),
                                product(k, rounded(k, x, of_blocks.dtype), tokens, of_blocks)))
              << rows << " x " << cols << ", " << tokens << " rows of x, step " << step;
        }
      }
    }
  }
}

/// A matrix of codes in groups, whose arrays end at inaccessible pages.
struct GroupMatrix {
  std::vector<std::byte> bytes;
  std::vector<float> scale;
  std::vector<std::uint8_t> zero;

  GroupMatrix(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t group, std::uint32_t seed)
      : bytes(static_cast<std::size_t>(bytes_of(dtype, rows * cols))),
        scale(static_cast<std::size_t>(rows * ((cols + group - 1) / group))),
        zero(scale.size()) {
    std::mt19937 random(seed);
    const unsigned codes = dtype == DType::int2 ? 4 : dtype == DType::int3 ? 8 : dtype == DType::int4 ? 16 : 256;
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    for (float& s : scale)
      s = float_from_f16(f16_from_float((static_cast<float>(random() % 1000) - 400.0f) / 50000.0f));
    for (std::uint8_t& z : zero) z = static_cast<std::uint8_t>(random() % codes);
  }
};

/// Products with codes in groups have the bits of the scalar table, which are near those of the dequantized matrix.
TEST_P(Blocks, MultiplyCodesInGroups) {
  const Kernels &scalar = kernels_for(Isa::scalar), &k = kernels();
  std::uint32_t seed = 90;
  for (const DType dtype : {DType::int2, DType::int3, DType::int4, DType::int8}) {
    for (const auto& [cols, group] : {std::pair{32, 32}, {96, 64}, {480, 96}, {480, 480}, {2304, 128}}) {
      for (const std::int64_t rows : {1, 7, 8, 16, 17, 61, 150}) {
        const bool has_zeros = rows % 2 != 0;
        const GroupMatrix from(dtype, rows, cols, group, ++seed);
        Guarded<std::byte> w{std::span<const std::byte>(from.bytes)};
        Guarded<float> scales{std::span<const float>(from.scale)};
        Guarded<std::uint8_t> zeros{std::span<const std::uint8_t>(from.zero)};
        const GroupTables groups = {has_zeros ? zeros.data() : nullptr};
        const BlockScales of = {
            reinterpret_cast<const std::byte*>(scales.data()), 1, group, (cols + group - 1) / group, 1, 0, 0, &groups};
        const MatrixView whole = {w.data(), dtype, rows, cols, cols, 1, of};
        for (const std::int64_t first : {0, cols > 400 ? 160 : 0}) {
          const MatrixView m = whole.col_range(first, cols - first);
          for (const std::int64_t tokens : {1, 2, 5, 13, 40}) {
            const std::vector<float> x = numbers(tokens * m.cols, Numbers::ordinary, ++seed);
            const std::vector<float> y = product(k, rounded(k, x, dtype), tokens, m);
            ASSERT_TRUE(same_bits(y, product(scalar, rounded(scalar, x, dtype), tokens, m)))
                << name_of(dtype) << ' ' << rows << " x " << cols << " / " << group << ", " << tokens << " rows of x";
            std::vector<float> row(static_cast<std::size_t>(m.cols));
            const std::vector<RoundedPart> parts = rounded(k, x, DType::q8_0);
            for (std::int64_t r = 0; r < rows && tokens == 2; ++r) {
              dequantize_groups(m, r, m.cols, row.data());
              double expected = 0, size = 0;
              for (std::int64_t i = 0; i < m.cols; ++i) {
                const RoundedPart& part = parts[static_cast<std::size_t>(i / 32)];
                const double x_i = static_cast<double>(part.scale) * part.q[i % 32];
                expected += x_i * row[static_cast<std::size_t>(i)],
                    size += std::abs(x_i) * 256 * std::abs(from.scale[0]);
              }
              ASSERT_NEAR(y[static_cast<std::size_t>(r)], expected, 1e-5 * (1 + size)) << name_of(dtype);
            }
          }
        }
      }
    }
  }
}

TEST_P(Blocks, ARowOfXIsMultipliedAloneAsAmongOthers) {
  const Kernels& k = kernels();
  for (const DType dtype : kFormats) {
    const std::int64_t rows = 83, cols = 2304, tokens = 29;
    const std::vector<std::byte> bytes = blocks(dtype, rows * cols, Bytes::random, false, 8);
    const MatrixView w = view(dtype, bytes.data(), rows, cols);
    const std::vector<RoundedPart> x = rounded(k, numbers(tokens * cols, Numbers::ordinary, 9), dtype);
    const std::vector<float> together = product(k, x, tokens, w);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::vector<RoundedPart> one(x.begin() + t * cols / 32, x.begin() + (t + 1) * cols / 32);
      const std::vector<float> alone = product(k, one, 1, w);
      ASSERT_TRUE(same_bits(
          alone, std::span(together).subspan(static_cast<std::size_t>(t * rows), static_cast<std::size_t>(rows))))
          << name_of(dtype);
    }
    for (const std::int64_t first : {1, 30, 66}) {  // and a row of w wherever it is
      const std::vector<float> part = product(k, x, tokens, w.row_range(first, rows - first));
      for (std::int64_t t = 0; t < tokens; ++t) {
        const auto at = static_cast<std::size_t>(t * (rows - first)), n = static_cast<std::size_t>(rows - first);
        ASSERT_TRUE(same_bits(std::span(part).subspan(at, n),
                              std::span(together).subspan(static_cast<std::size_t>(t * rows + first), n)));
      }
    }
  }
}

TEST_P(Blocks, APartThatIsNotFiniteMakesItsOutputsNotFinite) {
  const Kernels& k = kernels();
  for (const DType dtype : kFormats) {
    const std::int64_t rows = 20, cols = 512;
    const std::vector<std::byte> bytes = blocks(dtype, rows * cols, Bytes::all_zero, false, 8);
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      std::vector<float> x = numbers(2 * cols, Numbers::ordinary, 9);
      x[600] = bad;  // in the second row
      const std::vector<float> y = product(k, rounded(k, x, dtype), 2, view(dtype, bytes.data(), rows, cols));
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isfinite(y[i]), i < 20) << name_of(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Blocks, testing::ValuesIn(available_isas()), isa_test_name);

}  // namespace
}  // namespace vitrine
