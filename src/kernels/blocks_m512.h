// Sixteen rows of a quantized matrix in AVX-512 registers, with VNNI; blocks-inl.h defines the operations.
#pragma once

// GCC 12 warns of the undefined operand inside its own intrinsics (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstddef>
#include <cstdint>

#include "base/unrolled.h"

namespace vitrine {
namespace {

constexpr int kRowLanes = 16;
constexpr int kDirectRows = 8;
constexpr int kTileRows = 6, kTileGroups = 2;
constexpr int kBytesAhead = 512;  // the processor alone does not follow sixteen streams

struct Words {
  __m512i v;
};
struct Floats {
  __m512 v;
};

inline Words operator&(Words a, std::uint32_t b) {
  return {_mm512_and_si512(a.v, _mm512_set1_epi32(static_cast<int>(b)))};
}
inline Words operator^(Words a, std::uint32_t b) {
  return {_mm512_xor_si512(a.v, _mm512_set1_epi32(static_cast<int>(b)))};
}
inline Words operator|(Words a, Words b) { return {_mm512_or_si512(a.v, b.v)}; }
inline Words operator-(Words a, std::uint32_t b) {
  return {_mm512_sub_epi32(a.v, _mm512_set1_epi32(static_cast<int>(b)))};
}
inline Words operator<<(Words a, int bits) { return {_mm512_slli_epi32(a.v, static_cast<unsigned>(bits))}; }
inline Words operator>>(Words a, int bits) { return {_mm512_srli_epi32(a.v, static_cast<unsigned>(bits))}; }
inline Floats to_floats(Words a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline Floats floats_of_bits(Words a) { return {_mm512_castsi512_ps(a.v)}; }
inline Words look_up(Words bytes, const std::uint8_t (&table)[16]) {
  const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), bytes.v)};
}
inline Floats low_half(Words a) { return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(a.v))}; }
inline Floats high_half(Words a) { return low_half(a >> 16); }

inline Floats broadcast(float value) { return {_mm512_set1_ps(value)}; }
inline Floats operator*(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Floats operator-(Floats a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0F))}; }
inline Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Floats load_floats(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store_floats(Floats a, float* p) { _mm512_storeu_ps(p, a.v); }
inline void load(const std::byte* p, Words& to) { to.v = _mm512_loadu_si512(p); }
inline void load(const std::byte* p, Floats& to) { to = load_floats(reinterpret_cast<const float*>(p)); }
inline void store(Words a, std::byte* p) { _mm512_storeu_si512(p, a.v); }
inline void store(Floats a, std::byte* p) { store_floats(a, reinterpret_cast<float*>(p)); }

/// Four words of each row: 16 bytes of four rows in each register, whose words are transposed within each quarter.
template <class Rows>
[[gnu::always_inline]] inline void load_four_words(const Rows& rows, int at, Words* to) {
  __m512i quarters[4];
  unrolled<4>([&](auto i) {
    const auto quarter = [&](int r) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows(r) + at)); };
    __m512i v = _mm512_castsi128_si512(quarter(i));
    v = _mm512_inserti32x4(v, quarter(4 + i), 1);
    v = _mm512_inserti32x4(v, quarter(8 + i), 2);
    quarters[i] = _mm512_inserti32x4(v, quarter(12 + i), 3);
  });
  const __m512i low01 = _mm512_unpacklo_epi32(quarters[0], quarters[1]);
  const __m512i high01 = _mm512_unpackhi_epi32(quarters[0], quarters[1]);
  const __m512i low23 = _mm512_unpacklo_epi32(quarters[2], quarters[3]);
  const __m512i high23 = _mm512_unpackhi_epi32(quarters[2], quarters[3]);
  to[0].v = _mm512_unpacklo_epi64(low01, low23);
  to[1].v = _mm512_unpackhi_epi64(low01, low23);
  to[2].v = _mm512_unpacklo_epi64(high01, high23);
  to[3].v = _mm512_unpackhi_epi64(high01, high23);
}

template <class Rows>
[[gnu::always_inline]] inline Words load_word(const Rows& rows, int at) {
  __m128i quarters[4];
  unrolled<4>([&](auto q) {
    const auto word = [&](int r) {
      int bits;
      __builtin_memcpy(&bits, rows(4 * q + r) + at, sizeof bits);
      return bits;
    };
    __m128i v = _mm_cvtsi32_si128(word(0));
    v = _mm_insert_epi32(v, word(1), 1);
    v = _mm_insert_epi32(v, word(2), 2);
    quarters[q] = _mm_insert_epi32(v, word(3), 3);
  });
  __m512i v = _mm512_castsi128_si512(quarters[0]);
  v = _mm512_inserti32x4(v, quarters[1], 1);
  v = _mm512_inserti32x4(v, quarters[2], 2);
  return {_mm512_inserti32x4(v, quarters[3], 3)};
}

template <int n, class Rows>
[[gnu::always_inline]] inline void load_words(const Rows& rows, Words (&to)[n]) {
  unrolled<n / 4>([&](auto i) { load_four_words(rows, 16 * i, to + 4 * i); });
  unrolled<n % 4>([&](auto i) { to[n / 4 * 4 + i] = load_word(rows, 4 * (n / 4 * 4 + i)); });
}

template <class Rows>
[[gnu::always_inline]] inline Floats load_halves(const Rows& rows) {
  const auto half = [&](int r) {
    short bits;
    __builtin_memcpy(&bits, rows(r), sizeof bits);
    return bits;
  };
  __m128i v[2] = {_mm_setzero_si128(), _mm_setzero_si128()};
  unrolled<8>([&](auto r) {
    v[0] = _mm_insert_epi16(v[0], half(r), r);
    v[1] = _mm_insert_epi16(v[1], half(8 + r), r);
  });
  return {_mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(v[0]), v[1], 1))};
}

template <class Rows>
[[gnu::always_inline]] inline Words load_bytes(const Rows& rows) {
  __m128i v = _mm_setzero_si128();
  unrolled<16>([&](auto r) { v = _mm_insert_epi8(v, static_cast<char>(*rows(r)), r); });
  return {_mm512_cvtepu8_epi32(v)};
}

inline Words all(std::int32_t value) { return {_mm512_set1_epi32(value)}; }
inline Words all(const std::int8_t* four) {
  std::int32_t word;
  __builtin_memcpy(&word, four, sizeof word);
  return all(word);
}
template <int>
inline Words add_products(Words sums, Words codes, Words x) {
  return {_mm512_dpbusd_epi32(sums.v, codes.v, x.v)};
}

}  // namespace
}  // namespace vitrine
