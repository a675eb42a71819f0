#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/error.h"
#include "tensor/matrix_view.h"

namespace vitrine::test {
namespace {

TEST(Shape, CountsAndPrints) {
  EXPECT_EQ(Shape().count(), 1) << "a scalar";
  EXPECT_EQ((Shape{2, 3, 4, 5}.count()), 120);
  EXPECT_EQ((Shape{2, 0, 4}.count()), 0);
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(to_string(Shape{3, 2304}), "[3, 2304]");
  EXPECT_EQ((Shape{7, 8}.rank()), 2);
  EXPECT_EQ((Shape{7, 8}.sizes().size()), 2u);
}

TEST(Shape, ComparesRankAndSizes) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
  EXPECT_NE((Shape{2}), (Shape{2, 0}));
  EXPECT_NE(Shape{}, Shape{0});
}

TEST(Shape, RejectsInvalidSizes) {
  EXPECT_THROW((Shape{1, 2, 3, 4, 5}), InternalError);
  EXPECT_THROW((Shape{1, -1}), InternalError);
}

TEST(Tensor, RowsOfEveryRank) {
  std::vector<float> data(2 * 3 * 4 * 5);
  std::iota(data.begin(), data.end(), 0.0f);
  for (const Shape& shape : {Shape{120}, Shape{6, 20}, Shape{4, 6, 5}, Shape{2, 3, 4, 5}}) {
    const Tensor t{data.data(), shape};
    EXPECT_EQ(t.rows() * t.row_size(), 120);
    EXPECT_EQ(*t.row(1), static_cast<float>(120 / shape[0]));
    const Tensor last = t.row_range(shape[0] - 1, 1);
    EXPECT_EQ(last.shape.rank(), shape.rank());
    EXPECT_EQ(last.rows(), 1);
    EXPECT_EQ(last.row_size(), t.row_size());
    EXPECT_EQ(last.values().back(), 119.0f);
    EXPECT_EQ(last.values().front(), static_cast<float>(120 - t.row_size()));
    EXPECT_EQ(t.row_range(shape[0], 0).count(), 0);
  }
}

TEST(Tensor, ReshapedHasTheSameElements) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  const Tensor t = Tensor{data, {2, 3}}.reshaped({3, 2});
  EXPECT_EQ(t.row(2)[1], 5.0f);
  EXPECT_EQ(t.data, data);
}

/// The element at (r, c) of a view of int16.
std::int16_t element(const MatrixView& view, std::int64_t r, std::int64_t c) {
  return *reinterpret_cast<const std::int16_t*>(view.at(r, c));
}

TEST(MatrixView, RangesOfRowsAndColumns) {
  std::vector<std::int16_t> table(5 * 7);
  std::iota(table.begin(), table.end(), std::int16_t{0});
  const auto* data = reinterpret_cast<const std::byte*>(table.data());
  const MatrixView plain{data, DType::bf16, 5, 7, 7, 1};
  const MatrixView transposed{data, DType::f16, 7, 5, 1, 7};
  const MatrixView some = plain.row_range(1, 3).col_range(2, 4), same = plain.col_range(2, 4).row_range(1, 3);
  const MatrixView some_transposed = transposed.row_range(2, 4).col_range(1, 3);
  EXPECT_EQ(some.data, same.data);
  EXPECT_EQ(some.rows, 3);
  EXPECT_EQ(some.cols, 4);
  EXPECT_EQ(some_transposed.rows, 4);
  EXPECT_EQ(some_transposed.cols, 3);
  EXPECT_EQ(some_transposed.dtype, DType::f16);
  for (std::int64_t r = 0; r < 3; ++r) {
    for (std::int64_t c = 0; c < 4; ++c) {
      EXPECT_EQ(element(some, r, c), (r + 1) * 7 + c + 2);
      EXPECT_EQ(element(some_transposed, c, r), (r + 1) * 7 + c + 2);
    }
  }
}

}  // namespace
}  // namespace vitrine::test
