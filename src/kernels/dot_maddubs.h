// The sum of products with AVX2. VPMADDUBSW adds two products in 16 bits and saturates, so as many of its results are
// added in 16 bits as cannot exceed 32,767. With |x| ≤ 127 they are 2 · 15 · 127 for codes of 4 bits (8 of them fit),
// 2 · 31 · 127 for 5 bits (4), 2 · 63 · 127 for 6 bits (2). Codes of 8 bits do not fit; their offset of 128 makes them
// signed numbers w, and the product is |w| · (sign of w) x, of which two are at most 2 · 128 · 127.
#pragma once

#include "kernels/blocks_m256.h"
#include "kernels/kernels.h"
#include "quant/parts-inl.h"

namespace vitrine {
namespace {

/// Sums that fit in 16 bits.
constexpr int sums_in_16_bits(int bits) { return bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1; }

/// sums[t] += Σ_k code[k] · x_t[first + k] · factor over kCount words of codes and kTokens rows of x, which are `apart`
/// parts apart; `factors` has the factor in all its 16-bit elements. A word of codes meets all rows of x before the
/// next one, so that it stays in a register.
template <int kBits, int kCount, int kTokens>
[[gnu::always_inline]] inline void add_dots(const Words* codes, const RoundedPart* x, std::int64_t apart, int first,
                                            __m256i factors, __m256i* sums) {
  constexpr int kFit = sums_in_16_bits(kBits), kSums = kFit < kCount ? kFit : kCount;
  if constexpr (kTokens > 1 && kBits < 6) {
    unrolled<kTokens>([&](auto t) __attribute__((always_inline)) {
      add_dots<kBits, kCount, 1>(codes, x + t * apart, apart, first, factors, sums + t);
    });
    return;
  }
  unrolled<kCount / kSums>([&](auto group) __attribute__((always_inline)) {
    __m256i few[kTokens];
    unrolled<kSums>([&](auto j) __attribute__((always_inline)) {
      constexpr int i = group * kSums + j;
      const __m256i w = kBits == 8 ? (codes[i] ^ 0x80808080U).v : codes[i].v;
      const __m256i unsigned_w = kBits == 8 ? _mm256_abs_epi8(w) : w;
      unrolled<kTokens>([&](auto t) __attribute__((always_inline)) {
        const __m256i x_i = broadcast_codes(x[t * apart].q + first + 4 * i);
        const __m256i pairs = _mm256_maddubs_epi16(unsigned_w, kBits == 8 ? _mm256_sign_epi8(x_i, w) : x_i);
        few[t] = j == 0 ? pairs : _mm256_add_epi16(few[t], pairs);
      });
    });
    unrolled<kTokens>([&](auto t) __attribute__((always_inline)) {
      sums[t] = _mm256_add_epi32(sums[t], _mm256_madd_epi16(few[t], factors));
    });
  });
}

/// Calls receive(t, 0, Σ_k (code[k] − offset) · x_t[k]) for kTokens rows of x.
template <PartKind kKind, int kTokens, class Part, class Receive>
[[gnu::always_inline]] inline void dot_part(const Part (&w)[1], const RoundedPart* x, std::int64_t apart,
                                            Receive receive) {
  static_assert(kKind.bits <= 6 || kKind.offset == 128);
  __m256i sums[kTokens];
  unrolled<kTokens>([&](auto t) __attribute__((always_inline)) { sums[t] = _mm256_setzero_si256(); });
  add_dots<kKind.bits, 8, kTokens>(w[0].codes, x, apart, 0, _mm256_set1_epi16(1), sums);
  unrolled<kTokens>([&](auto t) __attribute__((always_inline)) {
    if constexpr (kKind.bits < 8 && kKind.offset > 0) {
      sums[t] = _mm256_add_epi32(sums[t], _mm256_set1_epi32(x[t * apart].sums[0]));
    }
    receive(t, 0, to_floats(Words{sums[t]}));
  });
}

/// Two integers of 8 bits per row, one for each half of a part, in 16 bits each.
struct IntegerPair {
  __m256i v;
};
using Pair = IntegerPair;

/// Bytes `first` and first + 1, as signed integers.
[[gnu::always_inline]] inline Pair byte_pair(const Words& word, int first) {
  const __m256i upper_bytes = pick_bytes(word.v, 0x01800080U + 0x01000100U * static_cast<unsigned>(first));
  return {_mm256_srai_epi16(upper_bytes, 8)};
}

/// The sums of halves as two numbers of 16 bits in the first word.
template <PartKind>
void set_sums_of_halves(std::int32_t (&sums)[2]) {
  sums[0] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[1]) << 16 |
                                      (static_cast<std::uint32_t>(sums[0]) & 0xFFFFU));
}

/// The integers times the sums of x's halves, which every row shares.
[[gnu::always_inline]] inline __m256i times_sums(const Pair& w, const RoundedPart& x) {
  return _mm256_madd_epi16(w.v, _mm256_set1_epi32(x.sums[0]));
}

/// Calls receive(t, 0, Σ_k (code[k] − offset) · x_t[k] · sub_scale[k / 16]): the sub-scale is the factor by which
/// VPMADDWD multiplies the sums of 16 bits.
template <PartKind kKind, int kTokens, class Part, class Receive>
[[gnu::always_inline]] inline void dot_halves(const Part (&w)[1], const RoundedPart* x, std::int64_t apart,
                                              Receive receive) {
  constexpr int kBits = kKind.bits, kOffset = kKind.offset;
  const Words* const codes = w[0].codes;
  const Pair& sub_scale = w[0].sub_scale;
  __m256i sums[kTokens];
  unrolled<kTokens>([&](auto t) __attribute__((always_inline)) {
    sums[t] = _mm256_setzero_si256();
    if constexpr (kOffset > 0) {
      sums[t] = _mm256_slli_epi32(times_sums(sub_scale, x[t * apart]), __builtin_ctz(unsigned{kOffset}));
    }
  });
  add_dots<kBits, 4, kTokens>(codes, x, apart, 0, pick_bytes(sub_scale.v, 0x01000100), sums);
  add_dots<kBits, 4, kTokens>(codes + 4, x, apart, 16, pick_bytes(sub_scale.v, 0x03020302), sums);
  unrolled<kTokens>([&](auto t) __attribute__((always_inline)) { receive(t, 0, to_floats(Words{sums[t]})); });
}

/// −Σ_k x[k] · sub_min[k / 16]
[[gnu::always_inline]] inline Floats minus_sum_of_halves(const RoundedPart& x, const Pair& sub_min) {
  return to_floats(Words{times_sums(sub_min, x)});
}

inline void load(const std::byte* p, Pair& to) { to.v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
inline void store(const Pair& a, std::byte* p) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }

}  // namespace
}  // namespace vitrine
