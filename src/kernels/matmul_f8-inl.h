// Products of few rows with a row-major matrix of E4M3, or of numbers of a table's entries (nf4, fp4), which is read
// once and widened in registers. The values and the order of the sums are those of the product with the matrix that
// widen_row() widens. A group of 16 columns has one scale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/unrolled.h"
#include "kernels/finish-inl.h"
#include "kernels/product-inl.h"
#include "kernels/stored-inl.h"

namespace vitrine {
namespace {

constexpr std::int64_t kF8Line = 64;         // columns per prefetch
constexpr std::int64_t kPrefetchF8 = 16384;  // bytes: beyond the rows of a tile, which follow each other

/// How sixteen elements of a row are widened, from element k on, a multiple of 16; or `rest`, if no more remain.
struct F8Elements {
  using Scale = Vec;
  explicit F8Elements(const MatrixView&) {}
  [[gnu::always_inline]] static Scale scale(float s) { return broadcast(0x1p8f * s); }  // the factor of load_f8
  [[gnu::always_inline]] static const std::byte* at(const std::byte* row, std::int64_t k) { return row + k; }
  [[gnu::always_inline]] static Vec load(const std::byte* p, Scale scale) { return load_f8(p) * scale; }
  [[gnu::always_inline]] static Vec load_first(const std::byte* p, int rest, Scale scale) {
    return load_f8_first(p, rest) * scale;
  }
};
/// Rows end with whole blocks of codes, so that those after the last element can be read; x has zeros for them.
struct TableElements {
  using Scale = FloatTable;  // the table's entries, scaled
  FloatTable table;
  explicit TableElements(const MatrixView& m) : table(load_table(m.scales.groups->values)) {}
  [[gnu::always_inline]] Scale scale(float s) const { return table * s; }
  [[gnu::always_inline]] static const std::byte* at(const std::byte* row, std::int64_t k) { return row + (k >> 1); }
  [[gnu::always_inline]] static Vec load(const std::byte* p, const Scale& scale) { return look_up(scale, p); }
  [[gnu::always_inline]] static Vec load_first(const std::byte* p, int, const Scale& scale) {
    return look_up(scale, p);
  }
};

/// acc[t][r] += x[t, k] · w[r, k] for sixteen k, or for the `rest` that remain. `x` and `w` are the rows.
template <class Elements, int kTokens, int kRows>
[[gnu::always_inline]] inline void add_widened(const float* x, std::int64_t ldx, const std::byte* const (&w)[kRows],
                                               const typename Elements::Scale (&scale)[kRows], std::int64_t k, int rest,
                                               Vec (&acc)[kTokens][kRows]) {
  Vec w_k[kRows];
  unrolled<kRows>([&](auto r) {
    const std::byte* const p = Elements::at(w[r], k);
    w_k[r] = rest == kLanes ? Elements::load(p, scale[r]) : Elements::load_first(p, rest, scale[r]);
  });
  unrolled<kTokens>([&](auto t) {
    const float* const from = x + t * ldx + k;
    const Vec x_k = rest == kLanes ? load_f32(from) : load_f32_first(from, rest);
    unrolled<kRows>([&](auto r) { acc[t][r] = fma(x_k, w_k[r], acc[t][r]); });
  });
}

/// The same for kF8Line columns of E4M3 that are numbers.
template <int kTokens, int kRows>
[[gnu::always_inline]] inline void add_f8_numbers(const float* x, std::int64_t ldx, const std::byte* const (&w)[kRows],
                                                  const Vec (&scale)[kRows], std::int64_t line,
                                                  Vec (&acc)[kTokens][kRows]) {
  unrolled<kF8Line / kLanes / 2>([&](auto pair) {
    const std::int64_t k = line + pair * 2 * kLanes;
    Vec w_k[kRows][2];
    unrolled<kRows>([&](auto r) {
      load_f8_numbers(w[r] + k, w_k[r]);
      w_k[r][0] = w_k[r][0] * scale[r], w_k[r][1] = w_k[r][1] * scale[r];
    });
    unrolled<kTokens>([&](auto t) {
      unrolled<2>([&](auto i) {
        const Vec x_k = load_f32(x + t * ldx + k + i * kLanes);
        unrolled<kRows>([&](auto r) { acc[t][r] = fma(x_k, w_k[r][i], acc[t][r]); });
      });
    });
  });
}

/// Whether each of the rows has kF8Line numbers from column k on.
template <int kRows>
[[gnu::always_inline]] inline bool have_f8_numbers(const std::byte* const (&w)[kRows], std::int64_t k) {
  bool have = true;
  unrolled<kRows>([&](auto r) { have = have & are_f8_numbers(w[r] + k); });
  return have;
}

/// y of kTokens rows of x and kRows rows of w from `row` on.
template <class Elements, int kTokens, int kRows>
void widened_tile(const float* x, std::int64_t ldx, const MatrixView& m, std::int64_t row, float* y, std::int64_t ldy) {
  const BlockScales& s = m.scales;
  const Elements elements(m);
  const std::byte* w[kRows];
  const float* scales[kRows];
  Vec acc[kTokens][kRows];
  unrolled<kRows>([&](auto r) {
    w[r] = Elements::at(m.data, (row + r) * m.row_stride);
    scales[r] = reinterpret_cast<const float*>(s.data) + (s.first_row + row + r) / s.block_rows * s.row_stride +
                s.first_col / s.block_cols;
    unrolled<kTokens>([&](auto t) { acc[t][r] = zero(); });
  });
  std::int64_t end = s.block_cols - s.first_col % s.block_cols;
  for (std::int64_t k = 0; k < m.cols; end += s.block_cols) {
    if (end > m.cols) end = m.cols;
    typename Elements::Scale scale[kRows];
    unrolled<kRows>([&](auto r) { scale[r] = elements.scale(*scales[r]++); });
    for (; k + kF8Line <= end; k += kF8Line) {
      unrolled<kRows>([&](auto r) { __builtin_prefetch(Elements::at(w[r], k) + kPrefetchF8, 0, kSecondCache); });
      if constexpr (std::is_same_v<Elements, F8Elements>) {
        if (have_f8_numbers(w, k)) {
          add_f8_numbers<kTokens>(x, ldx, w, scale, k, acc);
          continue;
        }
      }
      unrolled<kF8Line / kLanes>(
          [&](auto i) { add_widened<Elements, kTokens>(x, ldx, w, scale, k + i * kLanes, kLanes, acc); });
    }
    for (; k + kLanes <= end; k += kLanes) add_widened<Elements, kTokens>(x, ldx, w, scale, k, kLanes, acc);
    if (k < end) add_widened<Elements, kTokens>(x, ldx, w, scale, k, static_cast<int>(end - k), acc);
    k = end;
  }
  finish(acc, y, ldy);
}

/// All rows of w, and all rows of x in groups of at most kTokens.
template <class Elements, int kTokens>
void widened_groups(const float* x, std::int64_t ldx, std::int64_t tokens, const MatrixView& w, float* y,
                    std::int64_t ldy) {
  constexpr int kRows = few_rows(kTokens, true);
  for (; tokens >= kTokens; tokens -= kTokens, x += kTokens * ldx, y += kTokens * ldy) {
    std::int64_t row = 0;
    for (; row + kRows <= w.rows; row += kRows) widened_tile<Elements, kTokens, kRows>(x, ldx, w, row, y + row, ldy);
    for (; row < w.rows; ++row) widened_tile<Elements, kTokens, 1>(x, ldx, w, row, y + row, ldy);
  }
  if constexpr (kTokens > 1) {
    if (tokens > 0) widened_groups<Elements, kTokens - 1>(x, ldx, tokens, w, y, ldy);
  }
}

}  // namespace
}  // namespace vitrine
