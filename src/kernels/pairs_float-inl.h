// The table of products in the pair order that are computed with floats.
#pragma once

#include <cstdint>

#include "kernels/pair_step_float.h"
// A step comes before the products.
#include "kernels/pairs-inl.h"

namespace vitrine {
namespace {

[[gnu::noinline]] void multiply_pairs_transposed(const Product& p, std::int64_t tokens, std::int64_t rows) {
  matmul_few_transposed<kPairs, kFewTokensTransposed>(p, tokens, rows);
}

void matmul_float_pairs(const float* x, std::int64_t ldx, std::int64_t tokens, const MatrixView& w, float* y,
                        std::int64_t ldy, float* scratch) {
  if (w.col_stride == 1) return matmul_pairs(x, ldx, tokens, w, y, ldy, scratch);
  const FlushToZero mode;
  multiply_pairs_transposed({x, ldx, w.data, w.col_stride * kSize<kPairs>, w.cols, y, ldy, scratch}, tokens, w.rows);
}

[[gnu::noinline]] void multiply_packed_pairs(const float* packed, std::int64_t tokens, const MatrixView& w, float* y,
                                             std::int64_t ldy, float* scratch) {
  multiply_packed<kPairs>(packed, tokens, w, y, ldy, false, scratch);
}

void matmul_packed_pairs(const float* packed, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy,
                         float* scratch) {
  const FlushToZero mode;
  multiply_packed_pairs(packed, tokens, w, y, ldy, scratch);
}

constexpr PairKernels kFloatPairs = {
    .by_instruction = false,
    .group_floats = Step<kPairs>::kXFloats,
    .round = round_pairs,
    .matmul = matmul_float_pairs,
    .matmul_packed = matmul_packed_pairs,
    .pack_above = kPackAbove,
};

}  // namespace
}  // namespace vitrine
