// The kernels that read a stored matrix.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/matmul_few-inl.h"
#include "kernels/matmul_few_transposed-inl.h"
#include "kernels/matmul_packed-inl.h"
#include "kernels/product-inl.h"
#include "kernels/stored-inl.h"
#include "kernels/unrolled.h"

namespace vitrine {
namespace {

void matmul(const float* x, std::int64_t ldx, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy) {
  with_type(w.dtype, [&](auto stored) {
    constexpr DType kType = decltype(stored)::kDType;
    const bool transposed = w.col_stride != 1;
    const std::int64_t stride = (transposed ? w.col_stride : w.row_stride) * kSize<kType>;
    const Product p = {x, ldx, w.data, stride, w.cols, y, ldy};
    if (transposed) {
      matmul_few_transposed<kType, kFewTokensTransposed>(p, tokens, w.rows);
    } else {
      matmul_few<kType>(p, tokens, w.rows);
    }
  });
}

/// z[d] += Σ_j p[j] v[j, d] for kVecs vectors of d, which stay in registers over all j.
template <int kVecs, class LoadV>
void weighted_columns(const float* p, const std::byte* v, std::int64_t v_stride, std::int64_t rows, Vec (&z)[kVecs],
                      LoadV load_v) {
  for (std::int64_t j = 0; j < rows; ++j) {
    const Vec weight = broadcast(p[j]);
    unrolled<kVecs>([&](auto i) { z[i] = fma(weight, load_v(v + j * v_stride, i), z[i]); });
  }
}

void weighted_rows(const float* p, const MatrixView& v, float* z) {
  with_type(v.dtype, [&](auto stored) {
    constexpr DType kType = decltype(stored)::kDType;
    constexpr std::int64_t kVecBytes = kLanes * kSize<kType>;
    const auto load_v = [](const std::byte* at, int i) { return load<kType>(at + i * kVecBytes); };
    const std::int64_t stride = v.row_stride * kSize<kType>;
    std::int64_t d = 0;
    const auto columns = [&](auto& out) {
      constexpr int kVecs = static_cast<int>(sizeof(out) / sizeof(Vec));
      unrolled<kVecs>([&](auto i) { out[i] = load_f32(z + d + i * kLanes); });
      weighted_columns(p, v.data + d * kSize<kType>, stride, v.rows, out, load_v);
      unrolled<kVecs>([&](auto i) { store_f32(out[i], z + d + i * kLanes); });
      d += kVecs * kLanes;
    };
    while (d + kDepthVecs * kLanes <= v.cols) {
      Vec many[kDepthVecs];
      columns(many);
    }
    while (d + kLanes <= v.cols) {
      Vec one[1];
      columns(one);
    }
    if (d < v.cols) {
      const int rest = static_cast<int>(v.cols - d);
      Vec part[1] = {load_f32_first(z + d, rest)};
      weighted_columns(p, v.data + d * kSize<kType>, stride, v.rows, part,
                       [rest](const std::byte* at, int) { return load_first<kType>(at, rest); });
      store_f32_first(part[0], z + d, rest);
    }
  });
}

}  // namespace
}  // namespace vitrine
