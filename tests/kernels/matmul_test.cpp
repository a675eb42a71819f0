// Products with a stored matrix: the order of summation is the same for every shape, layout and tile.
#include <algorithm>

#include "kernels/kernel_testing.h"
#include "kernels/widen_row.h"
#include "support/small_stack.h"

namespace vitrine {
namespace {

constexpr float kUntouched = 12345.0f;

enum class Layout { row_major, strided, transposed, transposed_strided };
constexpr Layout kLayouts[] = {Layout::row_major, Layout::strided, Layout::transposed, Layout::transposed_strided};
constexpr DType kDTypes[] = {DType::f32, DType::f16, DType::bf16};

/// A matrix as a file could hold it, its last byte before an inaccessible page.
class StoredMatrix {
 public:
  StoredMatrix(std::int64_t rows, std::int64_t cols, DType dtype, Layout layout, const std::vector<float>& values)
      : bytes_(static_cast<std::size_t>(count(rows, cols, layout) * size_of(dtype))), values_(values) {
    const bool transposed = layout == Layout::transposed || layout == Layout::transposed_strided;
    const std::int64_t pad = layout == Layout::strided || layout == Layout::transposed_strided ? kPad : 0;
    view_ = {bytes_.data(), dtype, rows, cols, transposed ? 1 : cols + pad, transposed ? rows + pad : 1};
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) set(r, c);
    }
  }
  const MatrixView& view() const { return view_; }
  /// The element as it is stored.
  float operator()(std::int64_t r, std::int64_t c) const {
    return values_[static_cast<std::size_t>(r * view_.cols + c)];
  }

 private:
  static constexpr std::int64_t kPad = 5;

  static std::int64_t count(std::int64_t rows, std::int64_t cols, Layout layout) {
    if (rows == 0 || cols == 0) return 0;
    if (layout == Layout::strided) return (rows - 1) * (cols + kPad) + cols;
    if (layout == Layout::transposed_strided) return (cols - 1) * (rows + kPad) + rows;
    return rows * cols;
  }
  void set(std::int64_t r, std::int64_t c) {
    float& value = values_[static_cast<std::size_t>(r * view_.cols + c)];
    auto* at = const_cast<std::byte*>(view_.at(r, c));
    if (view_.dtype == DType::f32) return static_cast<void>(std::memcpy(at, &value, 4));
    const std::uint16_t half = view_.dtype == DType::bf16 ? bf16_from_float(value) : f16_from_float(value);
    value = view_.dtype == DType::bf16 ? float_from_bf16(half) : float_from_f16(half);
    std::memcpy(at, &half, 2);
  }

  Guarded<std::byte> bytes_;
  std::vector<float> values_;
  MatrixView view_;
};

/// The definition: lane k mod 16, ascending, one fused multiply-add each, padded with zeros, the tree.
float dot(const float* x, const StoredMatrix& w, std::int64_t r) {
  float lane[16] = {};
  const std::int64_t cols = w.view().cols;
  for (std::int64_t k = 0; k < (cols + 15) / 16 * 16; ++k) {
    lane[k % 16] = k < cols ? std::fma(x[k], w(r, k), lane[k % 16]) : std::fma(0.0f, 0.0f, lane[k % 16]);
  }
  return sum_of_lanes(lane);
}

/// Scratch whose use beyond its end ends the test.
float* scratch() {
  static Guarded<float> floats(kScratchFloats);
  return floats.data();
}

std::vector<float> product(const Kernels& k, const std::vector<float>& x, std::int64_t ldx, std::int64_t tokens,
                           const MatrixView& w, std::int64_t ldy) {
  std::vector<float> y(static_cast<std::size_t>(tokens * ldy), kUntouched);
  k.matmul(x.data(), ldx, tokens, w, y.data(), ldy, scratch());
  return y;
}

/// The same product from x laid out before: packed in two parts, as threads do; x as rows, or as columns.
std::vector<float> packed_product(const Kernels& k, const std::vector<float>& x, std::int64_t ldx, std::int64_t tokens,
                                  const MatrixView& w, std::int64_t ldy, Layout x_layout) {
  std::vector<float> across(x.size());
  const bool as_rows = x_layout == Layout::row_major;
  for (std::int64_t t = 0; !as_rows && t < tokens; ++t) {
    for (std::int64_t i = 0; i < w.cols; ++i) {
      across[static_cast<std::size_t>(i * tokens + t)] = x[static_cast<std::size_t>(t * ldx + i)];
    }
  }
  const auto* data = reinterpret_cast<const std::byte*>(as_rows ? x.data() : across.data());
  const MatrixView view = {data, DType::f32, tokens, w.cols, as_rows ? ldx : 1, as_rows ? 1 : tokens};
  Guarded<float> tiles{static_cast<std::size_t>(packed_size(k, tokens, w.cols))};
  const std::int64_t half = tokens / 2 / k.packed_rows * k.packed_rows;
  k.pack(view.row_range(0, half), tiles.data());
  k.pack(view.row_range(half, tokens - half), tiles.data() + packed_size(k, half, w.cols));
  std::vector<float> y(static_cast<std::size_t>(tokens * ldy), kUntouched);
  k.matmul_packed(tiles.data(), tokens, w, y.data(), ldy, false, scratch());
  return y;
}

class Matmul : public EachIsa {};

/// All shapes up to tokens × rows against the outputs of the definition for the largest.
void check_shapes(const Kernels& k, std::int64_t cols, DType dtype, Layout layout, Numbers kind) {
  constexpr std::int64_t kTokens = 9, kRows = 19, kXPad = 3, kYPad = 2;
  const auto seed = static_cast<std::uint32_t>(cols);
  const std::int64_t ldx = cols + kXPad;
  const std::vector<float> x = numbers(kTokens * ldx, kind, seed);
  const StoredMatrix w(kRows, cols, dtype, layout, numbers(kRows * cols, kind, seed + 1000));
  std::vector<float> expected;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t r = 0; r < kRows; ++r) expected.push_back(dot(x.data() + t * ldx, w, r));
  }
  const std::int64_t step = k.isa == Isa::scalar ? 4 : 1;  // it has one tile only
  for (std::int64_t tokens = 1; tokens <= kTokens; tokens += step) {
    for (std::int64_t rows = 1; rows <= kRows; rows += step) {
      const std::int64_t first = kRows - rows;  // the last rows: their end is the end of memory
      const std::int64_t ldy = rows + kYPad;
      const MatrixView some = w.view().row_range(first, rows);
      const std::vector<float> y = product(k, x, ldx, tokens, some, ldy);
      for (const Layout x_layout : {Layout::row_major, Layout::transposed}) {
        ASSERT_TRUE(same_bits(packed_product(k, x, ldx, tokens, some, ldy, x_layout), y))
            << "packed, " << name_of(dtype) << " layout " << static_cast<int>(layout) << ", " << tokens << " tokens, "
            << rows << " rows, " << cols << " cols";
      }
      for (std::int64_t t = 0; t < tokens; ++t) {
        const auto y_row = std::span(y).subspan(static_cast<std::size_t>(t * ldy), static_cast<std::size_t>(ldy));
        const auto wanted = std::span<const float>(expected).subspan(static_cast<std::size_t>(t * kRows + first),
                                                                     static_cast<std::size_t>(rows));
        ASSERT_TRUE(same_bits(y_row.first(static_cast<std::size_t>(rows)), wanted))
            << name_of(dtype) << " layout " << static_cast<int>(layout) << ", " << tokens << " tokens, token " << t
            << ", " << rows << " rows, " << cols << " cols";
        ASSERT_EQ(std::count(y_row.end() - kYPad, y_row.end(), kUntouched), kYPad);
      }
    }
  }
}

TEST_P(Matmul, EveryShapeGivesTheBitsOfTheDefinition) {
  for (const DType dtype : kDTypes) {
    for (const Layout layout : kLayouts) {
      const bool strided = layout == Layout::strided || layout == Layout::transposed_strided;
      for (std::int64_t cols = 0; cols <= 37; cols += strided ? 6 : 1) {
        check_shapes(kernels(), cols, dtype, layout, Numbers::ordinary);
      }
    }
  }
}

TEST_P(Matmul, UnderflowInfinityAndNanKeepTheOrder) {
  for (const DType dtype : kDTypes) {
    for (const Layout layout : kLayouts) {
      for (const std::int64_t cols : {1, 15, 16, 20, 33}) {
        check_shapes(kernels(), cols, dtype, layout, Numbers::tiny);
        check_shapes(kernels(), cols, dtype, layout, Numbers::special);
      }
    }
  }
}

TEST_P(Matmul, ThePaddingOfATailIsAdded) {
  const std::vector<float> x(20, 1e-30f);
  const std::vector<float> values(20 * 3, -1e-30f);  // every product underflows to -0, in every lane
  for (const Layout layout : kLayouts) {
    const StoredMatrix w(3, 20, DType::f32, layout, values);
    EXPECT_TRUE(same_bits(product(kernels(), x, 20, 1, w.view(), 3), std::vector<float>(3, +0.0f)));
    const StoredMatrix no_tail(3, 16, DType::f32, layout, values);
    EXPECT_TRUE(same_bits(product(kernels(), x, 16, 1, no_tail.view(), 3), std::vector<float>(3, -0.0f)));
  }
}

TEST_P(Matmul, BlocksAndChunksChangeNothing) {
  const bool scalar = GetParam() == Isa::scalar;
  struct Shape {
    std::int64_t tokens, rows, cols;
  };
  const Shape shapes[] = {
      {33, 70, 300}, {13, 101, 1600}, {2, 101, 3300}, {1, 101, 3300}, {scalar ? 7 : 203, scalar ? 5 : 67, 2400}};
  for (const Shape s : shapes) {
    for (const DType dtype : kDTypes) {
      const std::vector<float> x = numbers(s.tokens * s.cols, Numbers::ordinary, 11);
      const std::vector<float> values = numbers(s.rows * s.cols, Numbers::ordinary, 12);
      const StoredMatrix w(s.rows, s.cols, dtype, Layout::row_major, values);
      const std::vector<float> y = product(kernels(), x, s.cols, s.tokens, w.view(), s.rows);
      for (std::int64_t t = 0; t < s.tokens; ++t) {  // one by one
        float alone[128];
        for (std::int64_t r = 0; r < s.rows; ++r) {
          kernels().matmul(x.data() + t * s.cols, s.cols, 1, w.view().row_range(r, 1), alone + r, 1, scratch());
        }
        const std::size_t at = static_cast<std::size_t>(t * s.rows), count = static_cast<std::size_t>(s.rows);
        ASSERT_TRUE(same_bits(std::span(y).subspan(at, count), std::span<const float>(alone, count)));
      }
      std::vector<float> whole(y.size());  // without scratch, k is not divided into chunks
      kernels().matmul(x.data(), s.cols, s.tokens, w.view(), whole.data(), s.rows, scratch());
      ASSERT_TRUE(same_bits(whole, y));
      ASSERT_TRUE(same_bits(y.back(), dot(x.data() + (s.tokens - 1) * s.cols, w, s.rows - 1)));
      const StoredMatrix across(s.rows, s.cols, dtype, Layout::transposed_strided, values);
      ASSERT_TRUE(same_bits(product(kernels(), x, s.cols, s.tokens, across.view(), s.rows), y));
      for (const Layout layout : {Layout::row_major, Layout::transposed}) {
        ASSERT_TRUE(same_bits(packed_product(kernels(), x, s.cols, s.tokens, w.view(), s.rows, layout), y));
        ASSERT_TRUE(same_bits(packed_product(kernels(), x, s.cols, s.tokens, across.view(), s.rows, layout), y));
      }
    }
  }
}

TEST_P(Matmul, PackedProductsCanBeAdded) {
  constexpr std::int64_t kTokens = 11, kRows = 50, kPad = 3;
  for (const std::int64_t cols : {5, 16, 20, 2400}) {  // in one vector, in one chunk, and in several
    const std::vector<float> x = numbers(kTokens * cols, Numbers::ordinary, 15);
    const StoredMatrix w(kRows, cols, DType::f32, Layout::row_major, numbers(kRows * cols, Numbers::ordinary, 16));
    std::vector<float> tiles(static_cast<std::size_t>(packed_size(kernels(), kTokens, cols)));
    kernels().pack({reinterpret_cast<const std::byte*>(x.data()), DType::f32, kTokens, cols, cols, 1}, tiles.data());
    std::vector<float> y = numbers(kTokens * (kRows + kPad), Numbers::ordinary, 17), expected = y;
    kernels().matmul_packed(tiles.data(), kTokens, w.view(), y.data(), kRows + kPad, true, scratch());
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t r = 0; r < kRows; ++r) {
        expected[static_cast<std::size_t>(t * (kRows + kPad) + r)] += dot(x.data() + t * cols, w, r);
      }
    }
    EXPECT_TRUE(same_bits(y, expected)) << cols;
  }
}

TEST_P(Matmul, PanelsOfShortRowsChangeNothing) {
  constexpr std::int64_t kTokens = 21, kRows = 2061, kCols = 16;  // two whole panels and a part; two parts of x
  const std::vector<float> x = numbers(kTokens * kCols, Numbers::ordinary, 18);
  for (const DType dtype : kDTypes) {
    for (const Layout layout : kLayouts) {
      const StoredMatrix w(kRows, kCols, dtype, layout, numbers(kRows * kCols, Numbers::ordinary, 19));
      const std::vector<float> y = packed_product(kernels(), x, kCols, kTokens, w.view(), kRows, Layout::row_major);
      ASSERT_TRUE(same_bits(y, product(kernels(), x, kCols, kTokens, w.view(), kRows)));
      ASSERT_TRUE(same_bits(y.back(), dot(x.data() + (kTokens - 1) * kCols, w, kRows - 1)));
    }
  }
}

TEST_P(Matmul, NeedsLittleStack) {
  constexpr std::int64_t kTokens = 25, kRows = 100, kCols = 1200;
  const std::vector<float> x = numbers(kTokens * kCols, Numbers::ordinary, 13);
  for (const DType dtype : kDTypes) {
    for (const Layout layout : {Layout::row_major, Layout::transposed}) {
      const StoredMatrix w(kRows, kCols, dtype, layout, numbers(kRows * kCols, Numbers::ordinary, 14));
      std::vector<float> few, packed;
      test::on_small_stack(std::size_t{32} << 10, [&] {
        few = product(kernels(), x, kCols, kTokens, w.view(), kRows);
        packed = packed_product(kernels(), x, kCols, kTokens, w.view(), kRows, Layout::row_major);
      });
      ASSERT_TRUE(same_bits(few, packed));
    }
  }
}

TEST_P(Matmul, NothingToDoIsFine) {
  for (const DType dtype : kDTypes) {
    float y = kUntouched;
    kernels().matmul(nullptr, 0, 0, {nullptr, dtype, 4, 4, 4, 1}, nullptr, 0, nullptr);
    kernels().matmul(nullptr, 0, 1, {nullptr, dtype, 0, 0, 0, 1}, nullptr, 0, nullptr);
    kernels().matmul(nullptr, 0, 1, {nullptr, dtype, 1, 0, 0, 1}, &y, 1, nullptr);
    EXPECT_TRUE(same_bits(y, 0.0f));
    kernels().pack({nullptr, DType::f32, 0, 4, 4, 1}, nullptr);
    kernels().matmul_packed(nullptr, 0, {nullptr, dtype, 4, 4, 4, 1}, nullptr, 0, false, scratch());
    y = kUntouched;
    kernels().matmul_packed(nullptr, 1, {nullptr, dtype, 1, 0, 0, 1}, &y, 1, false, scratch());
    EXPECT_TRUE(same_bits(y, 0.0f));
    kernels().weighted_rows(nullptr, 0, 0, {nullptr, dtype, 4, 4, 4, 1}, nullptr, 0);
    kernels().weighted_rows(nullptr, 0, 1, {nullptr, dtype, 0, 0, 0, 1}, nullptr, 0);
  }
}

/// Up to 13 rows of weights at once, each row of z as if it were alone.
TEST_P(Matmul, WeightedRowsAddInOrder) {
  constexpr std::int64_t kPad = 2;
  for (const DType dtype : kDTypes) {
    for (const std::int64_t n : {0, 1, 2, 7}) {
      for (std::int64_t cols = 0; cols < 600; cols += cols < 37 ? 1 : cols < 150 ? 19 : 107) {
        const StoredMatrix v(n, cols, dtype, Layout::strided, numbers(n * cols, Numbers::tiny, 6));
        for (const std::int64_t rows : {1, 2, 3, 6, 13}) {
          const std::int64_t ldp = n + kPad, ldz = cols + kPad;
          const std::vector<float> p = numbers(rows * ldp, Numbers::ordinary, 4);
          const std::vector<float> before = numbers(rows * ldz - kPad, Numbers::tiny, 5);
          std::vector<float> expected = before;
          for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t d = 0; d < cols; ++d) {
              float& z = expected[static_cast<std::size_t>(r * ldz + d)];
              for (std::int64_t j = 0; j < n; ++j) z = std::fma(p[static_cast<std::size_t>(r * ldp + j)], v(j, d), z);
            }
          }
          Guarded<float> z{std::span<const float>(before)};
          kernels().weighted_rows(p.data(), ldp, rows, v.view(), z.data(), ldz);
          EXPECT_TRUE(same_bits(z.values(), expected)) << rows << " rows of " << n << ", " << cols << " cols";
        }
      }
    }
  }
}

TEST_P(Matmul, StayInsideX) {
  for (std::int64_t cols = 0; cols <= 37; ++cols) {
    for (const std::int64_t tokens : {1, 2, 7}) {
      const std::vector<float> values = numbers(tokens * cols, Numbers::ordinary, 8);
      Guarded<float> x{std::span<const float>(values)};
      Guarded<float> y{static_cast<std::size_t>(tokens * 6)};
      for (const Layout layout : {Layout::row_major, Layout::transposed}) {
        const StoredMatrix w(6, cols, DType::f32, layout, numbers(6 * cols, Numbers::ordinary, 9));
        kernels().matmul(x.data(), cols, tokens, w.view(), y.data(), 6, scratch());
        EXPECT_TRUE(same_bits(y.values().back(), dot(values.data() + (tokens - 1) * cols, w, 5)));
      }
    }
  }
}

/// A matrix of E4M3 from row and column (5, 16) on of a larger one: the bits of the widened matrix.
TEST_P(Matmul, F8IsMultipliedAsItIsWidened) {
  std::mt19937 random(3);
  std::vector<float> scratch(kScratchFloats);
  for (const std::int64_t cols : {1, 16, 40, 100, 272}) {
    for (const std::int64_t block : {16, 48, 128, 4096}) {
      for (const std::int64_t rows : {1, 3, 8, 13}) {
        const std::int64_t stride = cols + 3, n = (16 + cols) / block + 1;
        std::vector<std::byte> codes(static_cast<std::size_t>((rows - 1) * stride + cols));
        for (std::byte& code : codes) code = static_cast<std::byte>(random() % 0x7F + random() % 2 * 0x80);
        const std::vector<float> scales = numbers((5 + rows) / 4 * n + n, Numbers::ordinary, 5);
        Guarded<std::byte> w{std::span<const std::byte>(codes)};
        const BlockScales of{reinterpret_cast<const std::byte*>(scales.data()), 4, block, n, 1, 5, 16};
        const MatrixView m{w.data(), DType::f8_e4m3, rows, cols, stride, 1, of};
        std::vector<float> widened(static_cast<std::size_t>(rows * cols));
        for (std::int64_t r = 0; r < rows; ++r) widen_row(kernels(), m, r, cols, widened.data() + r * cols);
        for (const std::int64_t tokens : {1, 2, 3, 4, 7}) {
          const std::vector<float> all = numbers(tokens * (cols + 2), Numbers::tiny, 6);
          Guarded<float> x{std::span<const float>(all)};
          std::vector<float> y(static_cast<std::size_t>(tokens * rows)), expected(y.size());
          kernels().matmul(x.data(), cols + 2, tokens, m, y.data(), rows, scratch.data());
          kernels().matmul(x.data(), cols + 2, tokens, view_of(widened.data(), rows, cols, cols), expected.data(), rows,
                           scratch.data());
          ASSERT_TRUE(same_bits(y, expected)) << rows << " x " << cols << ", block " << block << ", " << tokens;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Matmul, testing::ValuesIn(available_isas()), isa_test_name);

/// A tile is padded with zeros, not with the memory after the matrix.
TEST(PackedRows, OfATransposedMatrixEndWithZeros) {
  constexpr std::int64_t kLanes = 16;
  for (const Isa isa : available_isas()) {
    const Kernels& k = kernels_for(isa);
    for (const std::int64_t cols : {1, 16, 20}) {
      for (std::int64_t rows = 1; rows <= 50; ++rows) {
        const std::vector<float> x(static_cast<std::size_t>(rows * cols + 64), 7.0f);
        std::vector<float> packed(static_cast<std::size_t>(packed_size(k, rows, cols)), -1.0f);
        k.pack({reinterpret_cast<const std::byte*>(x.data()), DType::f32, rows, cols, 1, rows}, packed.data());
        const std::int64_t steps = (cols + kLanes - 1) / kLanes, tile = k.packed_rows;
        for (std::int64_t i = 0; i < packed_size(k, rows, cols); ++i) {
          const std::int64_t line = i / kLanes, row = line / (steps * tile) * tile + line % tile;
          const std::int64_t col = line / tile % steps * kLanes + i % kLanes;
          const float expected = row < rows && col < cols ? 7.0f : 0.0f;
          ASSERT_EQ(packed[static_cast<std::size_t>(i)], expected) << name_of(isa) << " " << rows << "x" << cols;
        }
      }
    }
  }
}

}  // namespace
}  // namespace vitrine
