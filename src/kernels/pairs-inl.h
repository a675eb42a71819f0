// Products of bfloat16 numbers in the pair order. The headers of a vector type and of a step (pair_step_*.h) are
// included before this one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/flush_to_zero.h"
#include "kernels/kernels.h"
#include "kernels/matmul_few-inl.h"
#include "kernels/matmul_few_transposed-inl.h"
#include "kernels/matmul_packed-inl.h"
#include "kernels/product-inl.h"

namespace vitrine {
namespace {

void round_pairs(const float* x, std::int64_t n, float* y) {
  constexpr std::int64_t kStep = kGroup<kPairs>;
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep, y += Step<kPairs>::kXFloats) {
    store_rounded(load_f32(x + i), load_f32(x + i + kLanes), y);
  }
  if (i == n) return;
  const int rest = static_cast<int>(n - i);
  if (rest <= kLanes) return store_rounded(load_f32_first(x + i, rest), zero(), y);
  store_rounded(load_f32(x + i), load_f32_first(x + i + kLanes, rest - kLanes), y);
}

// The functions that compute are called, not inlined, so that no arithmetic moves out of the scope of the mode.
[[gnu::noinline]] void multiply_pairs(const Product& p, std::int64_t tokens, std::int64_t rows) {
  matmul_few<kPairs>(p, tokens, rows);
}

void matmul_pairs(const float* x, std::int64_t ldx, std::int64_t tokens, const MatrixView& w, float* y,
                  std::int64_t ldy, float* scratch) {
  const FlushToZero mode;
  multiply_pairs({x, ldx, w.data, w.row_stride * kSize<kPairs>, w.cols, y, ldy, scratch}, tokens, w.rows);
}

}  // namespace
}  // namespace vitrine
