// Eight rows of a quantized matrix in AVX2 registers; blocks-inl.h defines the operations. dot() depends on the
// instructions: dot_maddubs.h or dot_avxvnni.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "base/unrolled.h"

namespace vitrine {
namespace {

constexpr int kRowLanes = 8;
constexpr int kDirectRows = 4;
constexpr int kTileRows = 4, kTileGroups = 1;
constexpr int kBytesAhead = 0;  // the processor follows eight streams

struct Words {
  __m256i v;
};
struct Floats {
  __m256 v;
};

inline Words operator&(Words a, std::uint32_t b) {
  return {_mm256_and_si256(a.v, _mm256_set1_epi32(static_cast<int>(b)))};
}
inline Words operator^(Words a, std::uint32_t b) {
  return {_mm256_xor_si256(a.v, _mm256_set1_epi32(static_cast<int>(b)))};
}
inline Words operator|(Words a, Words b) { return {_mm256_or_si256(a.v, b.v)}; }
inline Words operator-(Words a, std::uint32_t b) {
  return {_mm256_sub_epi32(a.v, _mm256_set1_epi32(static_cast<int>(b)))};
}
inline Words operator<<(Words a, int bits) { return {_mm256_slli_epi32(a.v, bits)}; }
inline Words operator>>(Words a, int bits) { return {_mm256_srli_epi32(a.v, bits)}; }
inline Floats to_floats(Words a) { return {_mm256_cvtepi32_ps(a.v)}; }
inline Floats floats_of_bits(Words a) { return {_mm256_castsi256_ps(a.v)}; }
inline Words look_up(Words bytes, const std::uint8_t (&table)[16]) {
  const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), bytes.v)};
}
inline Floats low_half(Words a) {
  const __m256i halves = _mm256_and_si256(a.v, _mm256_set1_epi32(0xFFFF));
  const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
  return {_mm256_cvtph_ps(packed)};
}
inline Floats high_half(Words a) { return low_half(a >> 16); }

inline Floats broadcast(float value) { return {_mm256_set1_ps(value)}; }
inline Floats operator*(Floats a, Floats b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Floats operator-(Floats a) { return {_mm256_xor_ps(a.v, _mm256_set1_ps(-0.0F))}; }
inline Floats fma(Floats a, Floats b, Floats c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline Floats load_floats(const float* p) { return {_mm256_loadu_ps(p)}; }
inline void store_floats(Floats a, float* p) { _mm256_storeu_ps(p, a.v); }
inline void load(const std::byte* p, Words& to) { to.v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
inline void load(const std::byte* p, Floats& to) { to = load_floats(reinterpret_cast<const float*>(p)); }
inline void store(Words a, std::byte* p) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }
inline void store(Floats a, std::byte* p) { store_floats(a, reinterpret_cast<float*>(p)); }

/// In every lane, the bytes of `a` that the bytes of `picks` number, or 0 where a byte of `picks` is 0x80.
[[gnu::always_inline]] inline __m256i pick_bytes(__m256i a, std::uint32_t picks) {
  const __m256i lanes = _mm256_set_epi32(0x0C0C0C0C, 0x08080808, 0x04040404, 0, 0x0C0C0C0C, 0x08080808, 0x04040404, 0);
  return _mm256_shuffle_epi8(a, _mm256_add_epi8(_mm256_set1_epi32(static_cast<int>(picks)), lanes));
}

/// Bits 4 · i to 4 · i + 3 of `bits` as bit 4 of four bytes: copies of the byte that has them, each compared with its
/// bit.
[[gnu::always_inline]] inline Words fifth_bits(const Words& bits, int i) {
  const __m256i copies = pick_bytes(bits.v, 0x01010101U * static_cast<unsigned>(i / 2));
  const __m256i bit = _mm256_set1_epi32(0x08040201 << (4 * (i % 2)));
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(copies, bit), bit);
  return {_mm256_and_si256(set, _mm256_set1_epi8(0x10))};
}

/// Four words of each row: 16 bytes of two rows in each register, whose words are transposed within each half.
template <class Rows>
[[gnu::always_inline]] inline void load_four_words(const Rows& rows, int at, Words* to) {
  __m256i halves[4];
  unrolled<4>([&](auto i) {
    const auto half = [&](int r) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows(r) + at)); };
    halves[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(half(i)), half(4 + i), 1);
  });
  const __m256i low01 = _mm256_unpacklo_epi32(halves[0], halves[1]);
  const __m256i high01 = _mm256_unpackhi_epi32(halves[0], halves[1]);
  const __m256i low23 = _mm256_unpacklo_epi32(halves[2], halves[3]);
  const __m256i high23 = _mm256_unpackhi_epi32(halves[2], halves[3]);
  to[0].v = _mm256_unpacklo_epi64(low01, low23);
  to[1].v = _mm256_unpackhi_epi64(low01, low23);
  to[2].v = _mm256_unpacklo_epi64(high01, high23);
  to[3].v = _mm256_unpackhi_epi64(high01, high23);
}

template <class Rows>
[[gnu::always_inline]] inline Words load_word(const Rows& rows, int at) {
  const auto word = [&](int r) {
    int bits;
    __builtin_memcpy(&bits, rows(r) + at, sizeof bits);
    return bits;
  };
  return {_mm256_setr_epi32(word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7))};
}

template <int n, class Rows>
[[gnu::always_inline]] inline void load_words(const Rows& rows, Words (&to)[n]) {
  unrolled<n / 4>([&](auto i) __attribute__((always_inline)) { load_four_words(rows, 16 * i, to + 4 * i); });
  unrolled<n % 4>([&](auto i)
                      __attribute__((always_inline)) { to[n / 4 * 4 + i] = load_word(rows, 4 * (n / 4 * 4 + i)); });
}

template <class Rows>
[[gnu::always_inline]] inline Floats load_halves(const Rows& rows) {
  const auto half = [&](int r) {
    short bits;
    __builtin_memcpy(&bits, rows(r), sizeof bits);
    return bits;
  };
  __m128i v = _mm_setzero_si128();
  unrolled<8>([&](auto r) { v = _mm_insert_epi16(v, half(r), r); });
  return {_mm256_cvtph_ps(v)};
}

template <class Rows>
[[gnu::always_inline]] inline Words load_bytes(const Rows& rows) {
  __m128i v = _mm_setzero_si128();
  unrolled<8>([&](auto r) { v = _mm_insert_epi8(v, static_cast<char>(*rows(r)), r); });
  return {_mm256_cvtepu8_epi32(v)};
}

inline __m256i broadcast_codes(const std::int8_t* x) {
  int four;
  __builtin_memcpy(&four, x, sizeof four);
  return _mm256_set1_epi32(four);
}

}  // namespace
}  // namespace vitrine
