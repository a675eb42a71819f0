// Keys and values of integers: their rotation, their rounding, and the products with them.
#include <algorithm>

#include "kernels/kernel_testing.h"

namespace vitrine {
namespace {

constexpr std::int64_t kSizes[] = {1, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 48, 64, 70, 80, 96, 128, 256};
constexpr KvType kIntegers[] = {KvType::int8, KvType::int4};

/// KvKernels::rotate by its definition.
std::vector<float> rotated(const std::vector<float>& x) {
  const auto n = static_cast<std::int64_t>(x.size()), part = n & -n;
  if (part < 16) return x;
  std::vector<float> y(x.size());
  const float factor = 1.0f / std::sqrt(static_cast<float>(part));
  for (std::size_t first = 0; first < x.size(); first += 16) {
    for (unsigned i = 0; i < 16; ++i) {
      float sum = 0;
      for (unsigned j = 0; j < 16; ++j) sum += std::popcount(i & j) % 2 == 0 ? x[first + j] : -x[first + j];
      y[first + i] = sum * factor;
    }
  }
  for (std::int64_t half = 16; half < part; half *= 2) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (i / half % 2 != 0) continue;
      float& a = y[static_cast<std::size_t>(i)];
      float& b = y[static_cast<std::size_t>(i + half)];
      const float sum = a + b, difference = a - b;
      a = sum, b = difference;
    }
  }
  return y;
}

/// The elements of a row by tensor/kv_type.h.
std::vector<float> elements(const std::byte* row, std::int64_t n, KvType type) {
  const std::int64_t rest = n % 32, n_blocks = (n + 31) / 32;
  const std::int64_t codes = type == KvType::int8 ? n : n / 32 * 16 + (rest > 16 ? 16 : rest > 0 ? 8 : 0);
  std::vector<float> out;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t block = i / 32, at = i % 32, half = n - 32 * block > 16 ? 16 : 8;
    std::uint16_t bits = 0;
    std::memcpy(&bits, row + codes + 2 * block, 2);
    const double scale = float_from_f16(bits);
    if (type == KvType::int8) {
      out.push_back(static_cast<float>(scale * static_cast<double>(static_cast<std::int8_t>(row[i]))));
      continue;
    }
    const auto byte = std::to_integer<int>(row[16 * block + at % half]);
    const auto zero = std::to_integer<int>(row[codes + 2 * n_blocks + block]);
    out.push_back(static_cast<float>(scale * ((at < half ? byte & 15 : byte >> 4) - zero / 16.0)));
  }
  return out;
}

/// The half step of a block, and what the rounding of the scale adds.
float largest_error(std::span<const float> block, KvType type) {
  const auto [low, high] = std::minmax_element(block.begin(), block.end());
  if (type == KvType::int8) return std::max(std::abs(*low), std::abs(*high)) * (0.5f / 127 + 1.0f / 2048);
  return (std::max(*high, 0.0f) - std::min(*low, 0.0f)) * (0.5f / 15 + 0.5f / 15 / 16 + 1.0f / 1024);
}

class KvIntegers : public EachIsa {
 protected:
  /// Rows of integers, and their elements as floats.
  struct Rounded {
    std::vector<std::byte> bytes;
    std::vector<float> values;
    KvRows rows;
  };
  Rounded rounded(std::int64_t n_rows, std::int64_t n, KvType type, std::uint32_t seed) const {
    const std::vector<float> x = numbers(n_rows * n, Numbers::ordinary, seed);
    const std::int64_t stride = kv_row_bytes(type, n);
    Rounded result;
    result.bytes.resize(static_cast<std::size_t>(n_rows * stride));
    for (std::int64_t r = 0; r < n_rows; ++r) {
      std::byte* const row = result.bytes.data() + r * stride;
      kernels().kv.round(x.data() + r * n, n, type, row);
      const std::vector<float> values = elements(row, n, type);
      result.values.insert(result.values.end(), values.begin(), values.end());
    }
    result.rows = {result.bytes.data(), type, n_rows, n, stride};
    return result;
  }
};

TEST_P(KvIntegers, RotationsAreTheirOwnInverse) {
  for (const std::int64_t n : kSizes) {
    const std::vector<float> x = numbers(n, Numbers::ordinary, 1);
    std::vector<float> y(x.size()), back(x.size());
    kernels().kv.rotate(x.data(), n, y.data());
    EXPECT_TRUE(same_bits(y, rotated(x))) << n;
    kernels().kv.rotate(y.data(), n, back.data());
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(back[i], x[i], 4e-6f) << n;
  }
}

TEST_P(KvIntegers, ElementsAreRoundedToTheNearestCode) {
  for (const KvType type : kIntegers) {
    for (const std::int64_t n : kSizes) {
      const std::vector<float> x = numbers(n, Numbers::ordinary, static_cast<std::uint32_t>(n));
      Guarded<float> from{std::span<const float>(x)};
      Guarded<std::byte> row(static_cast<std::size_t>(kv_row_bytes(type, n)));
      kernels().kv.round(from.data(), n, type, row.data());
      const std::vector<float> y = elements(row.data(), n, type);
      for (std::size_t first = 0; first < x.size(); first += 32) {
        const std::span<const float> block = std::span(x).subspan(first, std::min<std::size_t>(32, x.size() - first));
        for (std::size_t i = first; i < first + block.size(); ++i) {
          EXPECT_NEAR(y[i], x[i], largest_error(block, type)) << name_of(type) << ", element " << i << " of " << n;
        }
      }
    }
  }
}

TEST_P(KvIntegers, EverySetRoundsToTheSameBytes) {
  const Kernels& scalar = kernels_for(Isa::scalar);
  for (const Numbers kind : {Numbers::ordinary, Numbers::tiny, Numbers::special}) {
    for (const KvType type : kIntegers) {
      for (const std::int64_t n : kSizes) {
        const std::vector<float> x = numbers(n, kind, static_cast<std::uint32_t>(n + 1));
        std::vector<std::byte> a(static_cast<std::size_t>(kv_row_bytes(type, n))), b(a.size());
        kernels().kv.round(x.data(), n, type, a.data());
        scalar.kv.round(x.data(), n, type, b.data());
        EXPECT_EQ(a, b) << name_of(type) << " " << n;
      }
    }
  }
}

TEST_P(KvIntegers, ABlockWithAnElementThatIsNotFiniteHasNone) {
  for (const KvType type : kIntegers) {
    for (const float wrong : {std::numeric_limits<float>::infinity(), std::nanf(""), -1e30f}) {
      std::vector<float> x(64, 1.0f);
      x[40] = wrong;
      std::vector<std::byte> row(static_cast<std::size_t>(kv_row_bytes(type, 64)));
      kernels().kv.round(x.data(), 64, type, row.data());
      const std::vector<float> y = elements(row.data(), 64, type);
      EXPECT_NEAR(y[0], 1, 1e-3f);
      for (std::size_t i = 32; i < 64; ++i) EXPECT_TRUE(std::isnan(y[i])) << name_of(type);
    }
  }
}

TEST_P(KvIntegers, ProductsAreThoseOfTheirElements) {
  for (const KvType type : kIntegers) {
    for (const std::int64_t n : kSizes) {
      for (const std::int64_t n_rows : {1, 2, 3, 4, 5, 13}) {
        const Rounded kv = rounded(n_rows, n, type, 5);
        Guarded<std::byte> bytes{std::span<const std::byte>(kv.bytes)};
        KvRows rows = kv.rows;
        rows.data = bytes.data();
        const MatrixView floats = view_of(kv.values.data(), n_rows, n, n);
        static std::vector<float> scratch(kScratchFloats);
        for (const std::int64_t m : {1, 2, 3, 4, 7, 8, 16}) {
          const std::vector<float> x = numbers(m * n, Numbers::ordinary, 6),
                                   p = numbers(m * n_rows, Numbers::ordinary, 7);
          std::vector<float> y(static_cast<std::size_t>(m * n_rows)), expected(y.size());
          kernels().kv.score(x.data(), n, m, rows, y.data(), n_rows, scratch.data());
          kernels().matmul(x.data(), n, m, floats, expected.data(), n_rows, scratch.data());
          EXPECT_TRUE(same_bits(y, expected)) << name_of(type) << ", " << m << " × " << n << " × " << n_rows;
          std::vector<float> z = numbers(m * n, Numbers::ordinary, 8), sums = z;
          kernels().kv.mix(p.data(), n_rows, m, rows, z.data(), n);
          kernels().weighted_rows(p.data(), n_rows, m, floats, sums.data(), n);
          EXPECT_TRUE(same_bits(z, sums)) << name_of(type) << ", " << m << " × " << n_rows << " × " << n;
        }
      }
    }
  }
}

TEST_P(KvIntegers, RowsTakeFewBits) {
  EXPECT_LE(8.0 * static_cast<double>(kv_row_bytes(KvType::int8, 256)) / 256, 9);
  EXPECT_LE(8.0 * static_cast<double>(kv_row_bytes(KvType::int4, 256)) / 256, 5.5);
}

INSTANTIATE_TEST_SUITE_P(Isa, KvIntegers, testing::ValuesIn(available_isas()), isa_test_name);

}  // namespace
}  // namespace vitrine
