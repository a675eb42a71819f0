// Products of bfloat16 numbers: every instruction set gives the bits of the definition, for any number of rows, and the
// proof of an instruction tells the definition from what is similar.
#include "kernels/pairs.h"

#include <algorithm>
#include <cfenv>

#include "kernels/kernel_testing.h"
#include "support/small_stack.h"

namespace vitrine {
namespace {

constexpr float kUntouched = 12345.0f, kSmallest = 0x1p-126f, kSubnormal = 0x1p-149f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

float rounded(float x) { return float_from_bf16(bf16_from_float(x)); }
float without_subnormal(float x) { return std::abs(x) < kSmallest ? std::copysign(0.0f, x) : x; }

/// Numbers that bfloat16 makes special: subnormals, the largest, infinities, NaN, zeros of both signs.
std::vector<float> wild_numbers(std::int64_t n, std::uint32_t seed) {
  const float wild[] = {0.0f,   -0.0f,  1e-40f, -3e-39f, kSmallest, -kSmallest, 3.3e38f, -3.3e38f, kInfinity,
                        -1e30f, 1e-20f, 1e-19f, -1e-19f, 2e-38f,    1.0f,       -1.0f,   200.0f};
  std::vector<float> out = numbers(n, Numbers::ordinary, seed);
  std::mt19937 random(seed);
  for (float& x : out) {
    if (random() % 3 == 0) x = wild[random() % std::size(wild)];
    if (random() % 500 == 0) x = std::nanf("");
  }
  return out;
}

enum class Layout { row_major, strided, transposed, transposed_strided };
constexpr Layout kLayouts[] = {Layout::row_major, Layout::strided, Layout::transposed, Layout::transposed_strided};

/// A bf16 matrix, its last byte before an inaccessible page.
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t cols, Layout layout, const std::vector<float>& values)
      : halves_(static_cast<std::size_t>(count(rows, cols, layout))) {
    const bool transposed = layout == Layout::transposed || layout == Layout::transposed_strided;
    const std::int64_t pad = layout == Layout::strided || layout == Layout::transposed_strided ? kPad : 0;
    view_ = {reinterpret_cast<const std::byte*>(halves_.data()),
             DType::bf16,
             rows,
             cols,
             transposed ? 1 : cols + pad,
             transposed ? rows + pad : 1};
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        halves_.data()[r * view_.row_stride + c * view_.col_stride] =
            bf16_from_float(values[static_cast<std::size_t>(r * cols + c)]);
      }
    }
  }
  const MatrixView& view() const { return view_; }
  float operator()(std::int64_t r, std::int64_t c) const {
    std::uint16_t bits;
    std::memcpy(&bits, view_.at(r, c), sizeof bits);
    return float_from_bf16(bits);
  }

 private:
  static constexpr std::int64_t kPad = 5;

  static std::int64_t count(std::int64_t rows, std::int64_t cols, Layout layout) {
    if (rows == 0 || cols == 0) return 0;
    if (layout == Layout::strided) return (rows - 1) * (cols + kPad) + cols;
    if (layout == Layout::transposed_strided) return (cols - 1) * (rows + kPad) + rows;
    return rows * cols;
  }

  Guarded<std::uint16_t> halves_;
  MatrixView view_;
};

/// The definition, from kernels.h.
float dot(const float* x, const Matrix& w, std::int64_t r) {
  float lane[16] = {};
  const std::int64_t cols = w.view().cols;
  for (std::int64_t j = 0; 32 * j < cols; ++j) {
    for (std::int64_t l = 0; l < 16; ++l) {
      for (const std::int64_t k : {32 * j + 2 * l + 1, 32 * j + 2 * l}) {
        lane[l] = k < cols ? add_product(rounded(x[k]), w(r, k), lane[l]) : add_product(0, 0, lane[l]);
      }
    }
  }
  for (const int half : {8, 4, 2, 1}) {
    for (int l = 0; l < half; ++l) lane[l] = without_subnormal(lane[l] + lane[l + half]);
  }
  return lane[0];
}

/// Scratch whose use beyond its end ends the test.
float* scratch() {
  static Guarded<float> floats(kScratchFloats);
  return floats.data();
}

/// Rows of x as `round` leaves them, which end at an inaccessible page.
class Rounded {
 public:
  Rounded(const PairKernels& k, const std::vector<float>& x, std::int64_t tokens, std::int64_t cols)
      : size_(rounded_size(k, cols)), rows_(static_cast<std::size_t>(tokens * size_)) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto row = std::span(x).subspan(static_cast<std::size_t>(t * cols), static_cast<std::size_t>(cols));
      Guarded<float> alone{std::span<const float>(row)};
      k.round(alone.data(), cols, rows_.data() + t * size_);
    }
  }
  const float* row(std::int64_t t) { return rows_.data() + t * size_; }
  std::int64_t size() const { return size_; }

 private:
  std::int64_t size_;
  Guarded<float> rows_;
};

std::vector<float> product(const Kernels& k, const std::vector<float>& x, std::int64_t tokens, const MatrixView& w,
                           std::int64_t ldy) {
  const PairKernels& pairs = k.pairs(w.col_stride != 1);
  Rounded rows(pairs, x, tokens, w.cols);
  std::vector<float> y(static_cast<std::size_t>(tokens * ldy), kUntouched);
  pairs.matmul(rows.row(0), rows.size(), tokens, w, y.data(), ldy, scratch());
  return y;
}

/// Empty if these kernels never pack.
std::vector<float> packed_product(const Kernels& k, const std::vector<float>& x, std::int64_t tokens,
                                  const MatrixView& w, std::int64_t ldy) {
  const PairKernels& pairs = k.pairs(w.col_stride != 1);
  if (pairs.matmul_packed == nullptr) return {};
  Rounded rows(pairs, x, tokens, w.cols);
  Guarded<float> tiles{static_cast<std::size_t>(packed_size(k, tokens, rows.size()))};
  k.pack({reinterpret_cast<const std::byte*>(rows.row(0)), DType::f32, tokens, rows.size(), rows.size(), 1},
         tiles.data());
  std::vector<float> y(static_cast<std::size_t>(tokens * ldy), kUntouched);
  pairs.matmul_packed(tiles.data(), tokens, w, y.data(), ldy, scratch());
  return y;
}

class Pairs : public EachIsa {};

/// All shapes up to tokens × rows against the outputs of the definition for the largest.
void check_shapes(const Kernels& k, std::int64_t cols, Layout layout, bool wild) {
  constexpr std::int64_t kTokens = 13, kRows = 19, kYPad = 2;
  const auto seed = static_cast<std::uint32_t>(cols);
  const auto draw = [&](std::int64_t n, std::uint32_t s) {
    return wild ? wild_numbers(n, s) : numbers(n, Numbers::ordinary, s);
  };
  const std::vector<float> x = draw(kTokens * cols, seed);
  const Matrix w(kRows, cols, layout, draw(kRows * cols, seed + 1000));
  std::vector<float> expected;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t r = 0; r < kRows; ++r) expected.push_back(dot(x.data() + t * cols, w, r));
  }
  const std::int64_t step = k.isa == Isa::scalar ? 6 : 1;  // it has one tile only
  for (std::int64_t tokens = 1; tokens <= kTokens; tokens += step) {
    for (std::int64_t rows = 1; rows <= kRows; rows += step) {
      const std::int64_t first = kRows - rows, ldy = rows + kYPad;  // the last rows: their end is the end of memory
      const MatrixView some = w.view().row_range(first, rows);
      const std::vector<float> y = product(k, x, tokens, some, ldy), packed = packed_product(k, x, tokens, some, ldy);
      ASSERT_TRUE(packed.empty() || same_bits(packed, y)) << tokens << " x " << rows << " x " << cols;
      for (std::int64_t t = 0; t < tokens; ++t) {
        const auto y_row = std::span(y).subspan(static_cast<std::size_t>(t * ldy), static_cast<std::size_t>(ldy));
        const auto wanted = std::span<const float>(expected).subspan(static_cast<std::size_t>(t * kRows + first),
                                                                     static_cast<std::size_t>(rows));
        ASSERT_TRUE(same_bits(y_row.first(static_cast<std::size_t>(rows)), wanted))
            << "layout " << static_cast<int>(layout) << ", " << tokens << " tokens, token " << t << ", " << rows
            << " rows, " << cols << " cols";
        ASSERT_EQ(std::count(y_row.end() - kYPad, y_row.end(), kUntouched), kYPad);
      }
    }
  }
}

TEST_P(Pairs, EveryShapeGivesTheBitsOfTheDefinition) {
  for (const Layout layout : kLayouts) {
    const bool strided = layout == Layout::strided || layout == Layout::transposed_strided;
    for (std::int64_t cols = 0; cols <= 70; cols += strided ? 7 : cols < 35 ? 1 : 5) {
      check_shapes(kernels(), cols, layout, false);
    }
  }
}

TEST_P(Pairs, UnderflowInfinityAndNanKeepTheOrder) {
  for (const Layout layout : kLayouts) {
    for (const std::int64_t cols : {1, 2, 15, 31, 32, 33, 64, 97}) check_shapes(kernels(), cols, layout, true);
  }
}

TEST_P(Pairs, BlocksAndChunksChangeNothing) {
  const bool scalar = GetParam() == Isa::scalar;
  struct Size {
    std::int64_t tokens, rows, cols;
  };
  const Size sizes[] = {
      {33, 70, 300}, {13, 101, 1600}, {2, 101, 3300}, {1, 101, 7000}, {scalar ? 7 : 203, scalar ? 5 : 67, 4800}};
  for (const Size s : sizes) {
    const std::vector<float> x = numbers(s.tokens * s.cols, Numbers::ordinary, 11);
    const std::vector<float> values = numbers(s.rows * s.cols, Numbers::ordinary, 12);
    const Matrix w(s.rows, s.cols, Layout::row_major, values), across(s.rows, s.cols, Layout::transposed, values);
    const std::vector<float> y = product(kernels(), x, s.tokens, w.view(), s.rows);
    const auto count = static_cast<std::size_t>(s.rows);
    for (std::int64_t t = 0; t < s.tokens; t += 1 + s.tokens / 20) {  // alone
      const std::vector<float> row(x.begin() + t * s.cols, x.begin() + (t + 1) * s.cols);
      const auto among = std::span(y).subspan(static_cast<std::size_t>(t) * count, count);
      ASSERT_TRUE(same_bits(product(kernels(), row, 1, w.view(), s.rows), among));
      ASSERT_TRUE(same_bits(product(kernels(), row, 1, across.view(), s.rows), among));
      for (const std::int64_t r : {std::int64_t{0}, s.rows / 2, s.rows - 1}) {
        ASSERT_TRUE(same_bits(among[static_cast<std::size_t>(r)], dot(row.data(), w, r)));
      }
    }
    ASSERT_TRUE(same_bits(product(kernels(), x, s.tokens, across.view(), s.rows), y));
    for (const Matrix* m : {&w, &across}) {
      const std::vector<float> packed = packed_product(kernels(), x, s.tokens, m->view(), s.rows);
      ASSERT_TRUE(packed.empty() || same_bits(packed, y));
    }
  }
}

TEST_P(Pairs, ARowOfXIsRoundedToNearestEven) {
  constexpr std::int64_t kCols = 70;
  std::vector<float> x = wild_numbers(kCols, 3), unit(kCols * kCols, 0.0f), expected;
  x[7] = 1 + 0x1p-8f, x[8] = 1 + 3 * 0x1p-8f, x[9] = std::nextafter(1 + 0x1p-8f, 2.0f), x[10] = 0x1.fffp-127f;
  for (float& value : x) value = std::isfinite(value) && std::isfinite(rounded(value)) ? value : 1.0f;
  for (std::int64_t i = 0; i < kCols; ++i) unit[static_cast<std::size_t>(i * kCols + i)] = 1.0f;
  for (const float value : x) expected.push_back(without_subnormal(rounded(value)) + 0.0f);
  for (const Layout layout : {Layout::row_major, Layout::transposed}) {
    const Matrix w(kCols, kCols, layout, unit);
    EXPECT_TRUE(same_bits(product(kernels(), x, 1, w.view(), kCols), expected));
  }
}

TEST_P(Pairs, TheModeOfTheThreadChangesNothingAndStays) {
  constexpr std::int64_t kTokens = 9, kRows = 20, kCols = 100;
  const std::vector<float> x = wild_numbers(kTokens * kCols, 21), values = wild_numbers(kRows * kCols, 22);
  for (const Layout layout : {Layout::row_major, Layout::transposed}) {
    const Matrix w(kRows, kCols, layout, values);
    const std::vector<float> y = product(kernels(), x, kTokens, w.view(), kRows);
    volatile float small = kSubnormal;
    EXPECT_EQ(small + small, 2 * kSubnormal) << "subnormal numbers are still flushed";
    const bool is_scalar = kernels().pairs(layout == Layout::transposed).matmul_packed == nullptr;
    if (is_scalar) continue;  // it computes in the mode of the thread
    std::fesetround(FE_UPWARD);
    const std::vector<float> upward = product(kernels(), x, kTokens, w.view(), kRows);
    const int mode = std::fegetround();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(mode, FE_UPWARD);
    EXPECT_TRUE(same_bits(upward, y));
  }
}

TEST_P(Pairs, NeedLittleStack) {
  constexpr std::int64_t kTokens = 25, kRows = 100, kCols = 1200;
  const std::vector<float> x = numbers(kTokens * kCols, Numbers::ordinary, 13);
  for (const Layout layout : {Layout::row_major, Layout::transposed}) {
    const Matrix w(kRows, kCols, layout, numbers(kRows * kCols, Numbers::ordinary, 14));
    const PairKernels& pairs = kernels().pairs(layout == Layout::transposed);
    Rounded rows(pairs, x, kTokens, kCols);
    std::vector<float> y(kTokens * kRows);
    test::on_small_stack(std::size_t{32} << 10, [&] {
      pairs.matmul(rows.row(0), rows.size(), kTokens, w.view(), y.data(), kRows, scratch());
    });
    EXPECT_TRUE(same_bits(y.back(), dot(x.data() + (kTokens - 1) * kCols, w, kRows - 1)));
  }
}

TEST_P(Pairs, NothingToDoIsFine) {
  for (const bool transposed : {false, true}) {
    const PairKernels& pairs = kernels().pairs(transposed);
    float y = kUntouched;
    const std::int64_t row = transposed ? 1 : 4, col = transposed ? 4 : 1;
    pairs.round(nullptr, 0, nullptr);
    pairs.matmul(nullptr, 0, 0, {nullptr, DType::bf16, 4, 4, row, col}, nullptr, 0, scratch());
    pairs.matmul(nullptr, 0, 1, {nullptr, DType::bf16, 0, 0, row, col}, nullptr, 0, scratch());
    pairs.matmul(nullptr, 0, 1, {nullptr, DType::bf16, 1, 0, row, col}, &y, 1, scratch());
    EXPECT_TRUE(same_bits(y, 0.0f));
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Pairs, testing::ValuesIn(available_isas()), isa_test_name);

TEST(PairOrder, AnAdditionIsRoundedOnceAndFlushed) {
  EXPECT_EQ(add_product(3, 5, 7), 22.0f);
  EXPECT_EQ(add_product(1, 1, 0x1p24f), 0x1p24f);                         // a tie: to even
  EXPECT_EQ(add_product(1, 1, 0x1p24f + 2), 0x1p24f + 4);                 // the same
  EXPECT_EQ(add_product(0x1.02p0f, 0x1.02p0f, 0x1p24f), 0x1p24f + 2);     // more than a tie
  EXPECT_TRUE(same_bits(add_product(0x1p-127f, 0x1p127f, -0.0f), 0.0f));  // a subnormal operand
  EXPECT_TRUE(same_bits(add_product(1, 0, kSubnormal), 0.0f));            // a subnormal sum
  EXPECT_TRUE(same_bits(add_product(-0x1p-70f, 0x1p-60f, 0), -0.0f));     // a subnormal result keeps its sign
  EXPECT_EQ(add_product(0x1p-63f, 0x1p-63f, 0), kSmallest);               // the smallest result
  EXPECT_EQ(add_product(-0x1p-76f, 0x1p-76f, kSmallest), kSmallest);      // rounded to 2^-126 before it is compared
  EXPECT_EQ(add_product(-0x1p-76f, 0x1p-75f, kSmallest), kSmallest);      // the tie of an unbounded exponent
  EXPECT_EQ(add_product(-0x1.02p-76f, 0x1p-75f, kSmallest), 0.0f);        // below it
  EXPECT_TRUE(same_bits(add_product(0x1.02p-76f, 0x1p-75f, -kSmallest), -0.0f));
  EXPECT_EQ(add_product(0x1p127f, 2, -0x1p127f), 0x1p127f);  // only the sum must fit
  EXPECT_EQ(add_product(0x1p127f, 2, 1), kInfinity);
  EXPECT_TRUE(std::isnan(add_product(0, kInfinity, 1)));
}

float even_of(std::uint32_t pair) { return std::bit_cast<float>(pair << 16); }
float odd_of(std::uint32_t pair) { return std::bit_cast<float>(pair & 0xFFFF0000u); }

/// What other definitions compute, lane by lane.
template <class Add>
bool passes(Add add) {
  static Add one = add;
  return adds_in_pair_order([](const PairLanes& lanes, float* sum) {
    for (std::size_t l = 0; l < 16; ++l) sum[l] = one(lanes.a[l], lanes.b[l], lanes.sum[l]);
  });
}
float flush(float x) { return without_subnormal(x); }

TEST(PairOrder, TheProofTellsDefinitionsApart) {
  EXPECT_TRUE(adds_in_pair_order(add_pairs));
  EXPECT_FALSE(passes([](std::uint32_t a, std::uint32_t b, float sum) {  // the even elements first
    return add_product(odd_of(a), odd_of(b), add_product(even_of(a), even_of(b), sum));
  }));
  EXPECT_FALSE(passes([](std::uint32_t a, std::uint32_t b, float sum) {  // nothing is flushed
    return std::fma(even_of(a), even_of(b), std::fma(odd_of(a), odd_of(b), sum));
  }));
  EXPECT_FALSE(passes([](std::uint32_t a, std::uint32_t b, float sum) {  // only operands are flushed
    const float first = std::fma(flush(odd_of(a)), flush(odd_of(b)), flush(sum));
    return std::fma(flush(even_of(a)), flush(even_of(b)), first);
  }));
  EXPECT_FALSE(passes([](std::uint32_t a, std::uint32_t b, float sum) {  // only the last result is flushed
    const float first = std::fma(flush(odd_of(a)), flush(odd_of(b)), flush(sum));
    return flush(std::fma(flush(even_of(a)), flush(even_of(b)), first));
  }));
  EXPECT_FALSE(passes([](std::uint32_t a, std::uint32_t b, float sum) {  // only results are flushed
    return flush(std::fma(even_of(a), even_of(b), flush(std::fma(odd_of(a), odd_of(b), sum))));
  }));
  EXPECT_FALSE(passes([](std::uint32_t a, std::uint32_t b, float sum) {  // flushed if below 2^-126 before rounding
    const auto add = [](float x, float y, float z) {
      x = flush(x), y = flush(y), z = flush(z);
      const double exact = static_cast<double>(x) * static_cast<double>(y) + static_cast<double>(z);
      const float result = std::fma(x, y, z);
      return std::abs(exact) < 0x1p-126 ? std::copysign(0.0f, result) : flush(result);
    };
    return add(even_of(a), even_of(b), add(odd_of(a), odd_of(b), sum));
  }));
  EXPECT_FALSE(passes([](std::uint32_t a, std::uint32_t b, float sum) {  // compared with 2^-126 as subnormals round
    const auto add = [](float x, float y, float z) { return flush(std::fma(flush(x), flush(y), flush(z))); };
    return add(even_of(a), even_of(b), add(odd_of(a), odd_of(b), sum));
  }));
  EXPECT_FALSE(passes([](std::uint32_t a, std::uint32_t b, float sum) {  // both products are added first
    const double both = static_cast<double>(odd_of(a)) * static_cast<double>(odd_of(b)) +
                        static_cast<double>(even_of(a)) * static_cast<double>(even_of(b));
    return flush(static_cast<float>(both + static_cast<double>(sum)));
  }));
  EXPECT_FALSE(passes([](std::uint32_t a, std::uint32_t b, float sum) {  // one rounding at the end
    const double first =
        static_cast<double>(flush(sum)) + static_cast<double>(flush(odd_of(a))) * static_cast<double>(flush(odd_of(b)));
    return flush(
        static_cast<float>(first + static_cast<double>(flush(even_of(a))) * static_cast<double>(flush(even_of(b)))));
  }));
}

TEST(PairOrder, TheInstructionIsUsedWhereItIsProved) {
  const std::vector<Isa> isas = available_isas();
  if (isas.back() != Isa::avx512bf16) GTEST_SKIP() << "this machine has no AVX512_BF16";
  EXPECT_EQ(kernels_for(Isa::avx512bf16).pairs(false).by_instruction, pairs_are_proved());
  for (const Isa isa : isas) {
    if (isa == Isa::avx512bf16) continue;
    EXPECT_FALSE(kernels_for(isa).pairs(false).by_instruction);
  }
}

}  // namespace
}  // namespace vitrine
