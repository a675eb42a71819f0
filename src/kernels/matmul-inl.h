// The products with a stored matrix.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/unrolled.h"
#include "kernels/kernels.h"
#include "kernels/matmul_f8-inl.h"
#include "kernels/matmul_few-inl.h"
#include "kernels/matmul_few_transposed-inl.h"
#include "kernels/matmul_packed-inl.h"
#include "kernels/matmul_short-inl.h"
#include "kernels/product-inl.h"
#include "kernels/stored-inl.h"

namespace vitrine {
namespace {

void matmul(const float* x, std::int64_t ldx, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy,
            float* scratch) {
  if (w.dtype == DType::f8_e4m3) return widened_groups<F8Elements, kFewTokens>(x, ldx, tokens, w, y, ldy);
  if (has_groups(w.dtype)) return widened_groups<TableElements, kFewTokens>(x, ldx, tokens, w, y, ldy);
  with_type(w.dtype, [&](auto stored) {
    constexpr DType kType = decltype(stored)::kDType;
    const bool transposed = w.col_stride != 1;
    const std::int64_t stride = (transposed ? w.col_stride : w.row_stride) * kSize<kType>;
    const Product p = {x, ldx, w.data, stride, w.cols, y, ldy, scratch};
    if (transposed) {
      matmul_few_transposed<kType, kFewTokensTransposed>(p, tokens, w.rows);
    } else {
      matmul_few<kType>(p, tokens, w.rows);
    }
  });
}

/// Rows of f32 in tiles of kPackedTokens.
void pack(const MatrixView& x, float* packed) {
  const std::int64_t stride = (x.col_stride == 1 ? x.row_stride : x.col_stride) * kSize<DType::f32>;
  const auto lay_out = x.col_stride == 1 ? pack_row_major<DType::f32> : pack_transposed<DType::f32>;
  lay_out(x.data, stride, x.rows, x.cols, kPackedTokens, packed);
}

void matmul_packed(const float* x, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy, bool adds,
                   float* scratch) {
  with_type(w.dtype, [&](auto stored) {
    constexpr DType kType = decltype(stored)::kDType;
    if (0 < w.cols && w.cols <= kLanes) return matmul_short<kType>(x, tokens, w, y, ldy, adds, scratch);
    multiply_packed<kType>(x, tokens, w, y, ldy, adds, scratch);
  });
}

/// The first strip of columns prefetches the rows of the others as well, if there are few enough weights for memory to
/// be the limit.
template <int kRows>
constexpr bool kPrefetchesValues = kRows <= 4;
constexpr std::int64_t kPrefetchValues = 8192;  // bytes ahead

/// Prefetches `bytes` of the row that is kPrefetchValues after this one.
[[gnu::always_inline]] inline void prefetch_row(const std::byte* row, std::int64_t bytes) {
  for (std::int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(row + kPrefetchValues + line, 0, 2);
}

/// z[r][i] += Σ_j p[r, j] v[j, i] for kRows rows and kVecs vectors of columns, kept in registers over all j. Prefetches
/// so many bytes of each row.
template <int kRows, int kVecs, class LoadV>
[[gnu::always_inline]] inline void weighted_tile(const float* p, std::int64_t ldp, const std::byte* v,
                                                 std::int64_t v_stride, std::int64_t n, Vec (&z)[kRows][kVecs],
                                                 std::int64_t prefetched, LoadV load_v) {
  for (std::int64_t j = 0; j < n; ++j, v += v_stride) {
    if constexpr (kPrefetchesValues<kRows>) prefetch_row(v, prefetched);
    Vec v_j[kVecs];
    unrolled<kVecs>([&](auto i) { v_j[i] = load_v(v, i); });
    unrolled<kRows>([&](auto r) {
      const Vec weight = broadcast(p[r * ldp + j]);
      unrolled<kVecs>([&](auto i) { z[r][i] = fma(weight, v_j[i], z[r][i]); });
    });
  }
}

/// The same for kVecs vectors of columns from d on, from z and back to z.
template <DType kType, int kRows, int kVecs>
void weighted_block(const float* p, std::int64_t ldp, const MatrixView& v, std::int64_t d, float* z, std::int64_t ldz) {
  Vec sum[kRows][kVecs];
  unrolled<kRows>(
      [&](auto r) { unrolled<kVecs>([&](auto i) { sum[r][i] = load_f32(z + r * ldz + d + i * kLanes); }); });
  weighted_tile(p, ldp, v.data + d * kSize<kType>, v.row_stride * kSize<kType>, v.rows, sum,
                d == 0 ? v.cols * kSize<kType> : 0,
                [](const std::byte* at, int i) { return load<kType>(at + i * kLanes * kSize<kType>); });
  unrolled<kRows>(
      [&](auto r) { unrolled<kVecs>([&](auto i) { store_f32(sum[r][i], z + r * ldz + d + i * kLanes); }); });
}

/// kRows rows, the columns from d on, in strips of kVecs vectors, then in narrower strips.
template <DType kType, int kRows, int kVecs>
void weighted_strips(const float* p, std::int64_t ldp, const MatrixView& v, std::int64_t d, float* z,
                     std::int64_t ldz) {
  for (; d + kVecs * kLanes <= v.cols; d += kVecs * kLanes) weighted_block<kType, kRows, kVecs>(p, ldp, v, d, z, ldz);
  if (d == v.cols) return;
  if constexpr (kVecs > 1) {
    weighted_strips<kType, kRows, kVecs / 2>(p, ldp, v, d, z, ldz);
  } else {
    const int rest = static_cast<int>(v.cols - d);
    Vec sum[kRows][1];
    unrolled<kRows>([&](auto r) { sum[r][0] = load_f32_first(z + r * ldz + d, rest); });
    weighted_tile(p, ldp, v.data + d * kSize<kType>, v.row_stride * kSize<kType>, v.rows, sum, 0,
                  [rest](const std::byte* at, int) { return load_first<kType>(at, rest); });
    unrolled<kRows>([&](auto r) { store_f32_first(sum[r][0], z + r * ldz + d, rest); });
  }
}

/// All rows, in groups of at most kRows.
template <DType kType, int kRows>
void weighted_groups(const float* p, std::int64_t ldp, std::int64_t rows, const MatrixView& v, float* z,
                     std::int64_t ldz) {
  for (; rows >= kRows; rows -= kRows, p += kRows * ldp, z += kRows * ldz) {
    weighted_strips<kType, kRows, mix_vecs(kRows)>(p, ldp, v, 0, z, ldz);
  }
  if constexpr (kRows > 1) {
    if (rows > 0) weighted_groups<kType, kRows - 1>(p, ldp, rows, v, z, ldz);
  }
}

void weighted_rows(const float* p, std::int64_t ldp, std::int64_t rows, const MatrixView& v, float* z,
                   std::int64_t ldz) {
  with_type(v.dtype,
            [&](auto stored) { weighted_groups<decltype(stored)::kDType, kMixRows>(p, ldp, rows, v, z, ldz); });
}

}  // namespace
}  // namespace vitrine
