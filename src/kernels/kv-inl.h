// The products of attention with keys and values. Integers (tensor/kv_type.h) are widened in registers, exactly, so
// that an output is the sum of kernels.h over the widened elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/unrolled.h"
#include "kernels/kernels.h"
#include "kernels/matmul-inl.h"

namespace vitrine {
namespace {

constexpr std::int64_t kKvBlock = 2 * kLanes;
constexpr std::int64_t kPrefetchKv = 8192;  // bytes

/// Where the scales and the zero points of a row begin, in bytes. A copy of tensor/kv_type.h, because an inline
/// function that the rest of the program shares must not be compiled here.
struct KvRowLayout {
  std::int64_t scales, zeros;
};
inline KvRowLayout layout_of(KvType type, std::int64_t n) {
  const std::int64_t rest = n % kKvBlock, n_blocks = (n + kKvBlock - 1) / kKvBlock;
  const std::int64_t of_last = rest > kLanes ? kLanes : rest > 0 ? kLanes / 2 : 0;
  const std::int64_t codes = type == KvType::int8 ? n : n / kKvBlock * kLanes + of_last;
  return {codes, codes + 2 * n_blocks};
}

/// Blocks of int8.
struct EightBits {
  static constexpr KvType kType = KvType::int8;
  Vec scale;

  [[gnu::always_inline]] EightBits(const std::byte* row, std::int64_t block, const KvRowLayout& at)
      : scale(broadcast_f16(row + at.scales + 2 * block)) {}
  /// Elements 0 to 15, or 16 to 31, of a block.
  template <int kHalf>
  [[gnu::always_inline]] Vec half(const std::byte* row, std::int64_t block) const {
    return scale * load_i8(row + block * kKvBlock + kHalf * kLanes);
  }
  /// The elements of a half of the last block that has `count` of them, at most 16, then zeros.
  template <int kHalf>
  Vec first(const std::byte* row, std::int64_t block, int, int count) const {
    return select(first_lanes(count), scale * load_i8_first(row + block * kKvBlock + kHalf * kLanes, count), zero());
  }
};

/// Blocks of int4.
struct FourBits {
  static constexpr KvType kType = KvType::int4;
  FourBitValues values;

  [[gnu::always_inline]] FourBits(const std::byte* row, std::int64_t block, const KvRowLayout& at)
      : values(values_of(broadcast_f16(row + at.scales + 2 * block), row[at.zeros + block])) {}
  static FourBitValues values_of(Vec scale, std::byte zero) {
    return four_bit_values(scale, scale * broadcast(static_cast<float>(static_cast<int>(zero)) * -0.0625f));
  }
  template <int kHalf>
  [[gnu::always_inline]] Vec half(const std::byte* row, std::int64_t block) const {
    return load_four_bits(values, row + block * kLanes, kHalf == 1);
  }
  template <int kHalf>
  Vec first(const std::byte* row, std::int64_t block, int rest, int count) const {
    const std::byte* const codes = row + block * kLanes;
    const Vec all = rest > kLanes ? load_four_bits(values, codes, kHalf == 1) : load_four_bits_of_8(values, codes);
    return select(first_lanes(count), all, zero());
  }
};

/// `[rows, width]` keys or values of integers.
struct IntegerRows {
  const std::byte* data;
  std::int64_t stride, rows, width;
  KvRowLayout at;
};

/// acc[t][r] += x[t, k] · key[r, k] over the `rest` columns after the last whole block.
template <class Block, int kTokens, int kRows>
void score_rest(const float* x, std::int64_t ldx, const IntegerRows& keys, int rest, Vec (&acc)[kTokens][kRows]) {
  const std::int64_t block = keys.width / kKvBlock, k = block * kKvBlock;
  const int low = rest < kLanes ? rest : kLanes, high = rest - low;
  unrolled<kRows>([&](auto r) {
    const std::byte* const row = keys.data + r * keys.stride;
    const Block of(row, block, keys.at);
    const Vec first = of.template first<0>(row, block, rest, low);
    const Vec second = high > 0 ? of.template first<1>(row, block, rest, high) : zero();
    unrolled<kTokens>([&](auto t) {
      const float* const x_t = x + t * ldx + k;
      acc[t][r] = fma(load_f32_first(x_t, low), first, acc[t][r]);
      if (high > 0) acc[t][r] = fma(load_f32_first(x_t + kLanes, high), second, acc[t][r]);
    });
  });
}

/// y[t, r] for kTokens queries and kRows keys.
template <class Block, int kTokens, int kRows>
void score_tile(const float* x, std::int64_t ldx, const IntegerRows& keys, float* y, std::int64_t ldy) {
  Vec acc[kTokens][kRows];
  unrolled<kTokens>([&](auto t) { unrolled<kRows>([&](auto r) { acc[t][r] = zero(); }); });
  const std::int64_t n_blocks = keys.width / kKvBlock;
  for (std::int64_t block = 0; block < n_blocks; ++block) {
    Vec low[kRows], high[kRows];
    unrolled<kRows>([&](auto r) {
      const std::byte* const row = keys.data + r * keys.stride;
      const Block of(row, block, keys.at);
      low[r] = of.template half<0>(row, block);
      high[r] = of.template half<1>(row, block);
    });
    const float* const x_k = x + block * kKvBlock;
    unrolled<kTokens>([&](auto t) {
      const Vec x_low = load_f32(x_k + t * ldx), x_high = load_f32(x_k + t * ldx + kLanes);
      unrolled<kRows>([&](auto r) { acc[t][r] = fma(x_low, low[r], acc[t][r]); });
      unrolled<kRows>([&](auto r) { acc[t][r] = fma(x_high, high[r], acc[t][r]); });
    });
  }
  const int rest = static_cast<int>(keys.width % kKvBlock);
  if (rest > 0) score_rest<Block>(x, ldx, keys, rest, acc);
  finish(acc, y, ldy);
}

/// kTokens queries and all keys.
template <class Block, int kTokens>
void score_keys(const float* x, std::int64_t ldx, IntegerRows keys, float* y, std::int64_t ldy) {
  constexpr int kRows = score_rows(kTokens);
  const std::int64_t bytes = kRows * keys.stride;
  for (; keys.rows >= kRows; keys.rows -= kRows, keys.data += bytes, y += kRows) {
    for (std::int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(keys.data + kPrefetchKv + line, 0, 2);
    score_tile<Block, kTokens, kRows>(x, ldx, keys, y, ldy);
  }
  for (; keys.rows > 0; --keys.rows, keys.data += keys.stride, ++y) score_tile<Block, kTokens, 1>(x, ldx, keys, y, ldy);
}

/// All queries, in groups of at most kTokens.
template <class Block, int kTokens>
void score_queries(const float* x, std::int64_t ldx, std::int64_t tokens, const IntegerRows& keys, float* y,
                   std::int64_t ldy) {
  for (; tokens >= kTokens; tokens -= kTokens, x += kTokens * ldx, y += kTokens * ldy) {
    score_keys<Block, kTokens>(x, ldx, keys, y, ldy);
  }
  if constexpr (kTokens > 1) {
    if (tokens > 0) score_queries<Block, kTokens - 1>(x, ldx, tokens, keys, y, ldy);
  }
}

/// z[r][·] += p[r, j] · the elements of block `first` and those after it of value j, for kRows rows and kBlocks blocks.
template <class Block, int kRows, int kBlocks>
void mix_blocks(const float* p, std::int64_t ldp, const IntegerRows& values, std::int64_t first, float* z,
                std::int64_t ldz) {
  Vec sum[kRows][2 * kBlocks];
  z += first * kKvBlock;
  unrolled<kRows>(
      [&](auto r) { unrolled<2 * kBlocks>([&](auto i) { sum[r][i] = load_f32(z + r * ldz + i * kLanes); }); });
  const std::byte* row = values.data;
  const std::int64_t prefetched = first == 0 ? values.at.zeros : 0;
  for (std::int64_t j = 0; j < values.rows; ++j, row += values.stride) {
    if constexpr (kPrefetchesValues<kRows>) prefetch_row(row, prefetched);
    Vec weight[kRows];
    unrolled<kRows>([&](auto r) { weight[r] = broadcast(p[r * ldp + j]); });
    unrolled<kBlocks>([&](auto b) {
      const Block of(row, first + b, values.at);
      const Vec low = of.template half<0>(row, first + b), high = of.template half<1>(row, first + b);
      unrolled<kRows>([&](auto r) {
        sum[r][2 * b] = fma(weight[r], low, sum[r][2 * b]);
        sum[r][2 * b + 1] = fma(weight[r], high, sum[r][2 * b + 1]);
      });
    });
  }
  unrolled<kRows>(
      [&](auto r) { unrolled<2 * kBlocks>([&](auto i) { store_f32(sum[r][i], z + r * ldz + i * kLanes); }); });
}

/// The same for the `rest` columns after the last whole block.
template <class Block, int kRows>
void mix_rest(const float* p, std::int64_t ldp, const IntegerRows& values, int rest, float* z, std::int64_t ldz) {
  const std::int64_t block = values.width / kKvBlock;
  const int low = rest < kLanes ? rest : kLanes, high = rest - low;
  z += block * kKvBlock;
  for (int r = 0; r < kRows; ++r, p += ldp, z += ldz) {
    Vec sum_low = load_f32_first(z, low), sum_high = load_f32_first(z + low, high);
    const std::byte* row = values.data;
    for (std::int64_t j = 0; j < values.rows; ++j, row += values.stride) {
      const Block of(row, block, values.at);
      sum_low = fma(broadcast(p[j]), of.template first<0>(row, block, rest, low), sum_low);
      if (high > 0) sum_high = fma(broadcast(p[j]), of.template first<1>(row, block, rest, high), sum_high);
    }
    store_f32_first(sum_low, z, low);
    store_f32_first(sum_high, z + low, high);
  }
}

/// kRows rows, the columns from block `first` on, in strips of kBlocks blocks, then in narrower strips.
template <class Block, int kRows, int kBlocks>
void mix_strips(const float* p, std::int64_t ldp, const IntegerRows& values, std::int64_t first, float* z,
                std::int64_t ldz) {
  const std::int64_t n_blocks = values.width / kKvBlock;
  for (; first + kBlocks <= n_blocks; first += kBlocks) {
    mix_blocks<Block, kRows, kBlocks>(p, ldp, values, first, z, ldz);
  }
  if constexpr (kBlocks > 1) {
    mix_strips<Block, kRows, kBlocks / 2>(p, ldp, values, first, z, ldz);
  } else {
    const int rest = static_cast<int>(values.width % kKvBlock);
    if (rest > 0) mix_rest<Block, kRows>(p, ldp, values, rest, z, ldz);
  }
}

/// All rows, in groups of at most kRows.
template <class Block, int kRows>
void mix_rows(const float* p, std::int64_t ldp, std::int64_t rows, const IntegerRows& values, float* z,
              std::int64_t ldz) {
  constexpr int kBlocks = mix_vecs(kRows) > 1 ? mix_vecs(kRows) / 2 : 1;
  for (; rows >= kRows; rows -= kRows, p += kRows * ldp, z += kRows * ldz) {
    mix_strips<Block, kRows, kBlocks>(p, ldp, values, 0, z, ldz);
  }
  if constexpr (kRows > 1) {
    if (rows > 0) mix_rows<Block, kRows - 1>(p, ldp, rows, values, z, ldz);
  }
}

/// The rows as a matrix of floats of the type.
inline MatrixView view_of(const KvRows& of) {
  const DType dtype = of.type == KvType::f32 ? DType::f32 : of.type == KvType::bf16 ? DType::bf16 : DType::f16;
  return {of.data, dtype, of.rows, of.width, of.stride / (of.type == KvType::f32 ? 4 : 2), 1};
}
inline IntegerRows integers_of(const KvRows& of) {
  return {of.data, of.stride, of.rows, of.width, layout_of(of.type, of.width)};
}

void score(const float* x, std::int64_t ldx, std::int64_t tokens, const KvRows& keys, float* y, std::int64_t ldy,
           float* scratch) {
  switch (keys.type) {
    case KvType::int8:
      return score_queries<EightBits, kScoreTokens>(x, ldx, tokens, integers_of(keys), y, ldy);
    case KvType::int4:
      return score_queries<FourBits, kScoreTokens>(x, ldx, tokens, integers_of(keys), y, ldy);
    default:
      return matmul(x, ldx, tokens, view_of(keys), y, ldy, scratch);
  }
}

void mix(const float* p, std::int64_t ldp, std::int64_t rows, const KvRows& values, float* z, std::int64_t ldz) {
  switch (values.type) {
    case KvType::int8:
      return mix_rows<EightBits, kMixRows>(p, ldp, rows, integers_of(values), z, ldz);
    case KvType::int4:
      return mix_rows<FourBits, kMixRows>(p, ldp, rows, integers_of(values), z, ldz);
    default:
      return weighted_rows(p, ldp, rows, view_of(values), z, ldz);
  }
}

}  // namespace
}  // namespace vitrine
