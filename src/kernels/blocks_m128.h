// Four rows of a quantized matrix in NEON registers; blocks-inl.h defines the operations. add_products() depends on the
// instructions: dot_neon.h or dot_neondot.h.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "base/unrolled.h"

namespace vitrine {
namespace {

constexpr int kRowLanes = 4;
constexpr int kDirectRows = 4;
constexpr int kTileRows = 4, kTileGroups = 2;
constexpr int kBytesAhead = 0;  // the processor follows four streams

struct Words {
  uint32x4_t v;
};
struct Floats {
  float32x4_t v;
};

inline Words operator&(Words a, std::uint32_t b) { return {vandq_u32(a.v, vdupq_n_u32(b))}; }
inline Words operator^(Words a, std::uint32_t b) { return {veorq_u32(a.v, vdupq_n_u32(b))}; }
inline Words operator|(Words a, Words b) { return {vorrq_u32(a.v, b.v)}; }
inline Words operator-(Words a, std::uint32_t b) { return {vsubq_u32(a.v, vdupq_n_u32(b))}; }
inline Words operator<<(Words a, int bits) { return {vshlq_u32(a.v, vdupq_n_s32(bits))}; }
inline Words operator>>(Words a, int bits) { return {vshlq_u32(a.v, vdupq_n_s32(-bits))}; }
inline Floats to_floats(Words a) { return {vcvtq_f32_s32(vreinterpretq_s32_u32(a.v))}; }
inline Floats floats_of_bits(Words a) { return {vreinterpretq_f32_u32(a.v)}; }
inline Words look_up(Words bytes, const std::uint8_t (&table)[16]) {
  return {vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(table), vreinterpretq_u8_u32(bytes.v)))};
}
inline Floats low_half(Words a) { return {vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(a.v)))}; }
inline Floats high_half(Words a) { return {vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(a.v, 16)))}; }

inline Floats broadcast(float value) { return {vdupq_n_f32(value)}; }
inline Floats operator*(Floats a, Floats b) { return {vmulq_f32(a.v, b.v)}; }
inline Floats operator-(Floats a) { return {vnegq_f32(a.v)}; }
inline Floats fma(Floats a, Floats b, Floats c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
inline Floats load_floats(const float* p) { return {vld1q_f32(p)}; }
inline void store_floats(Floats a, float* p) { vst1q_f32(p, a.v); }
inline void load(const std::byte* p, Words& to) {
  to.v = vreinterpretq_u32_u8(vld1q_u8(reinterpret_cast<const std::uint8_t*>(p)));
}
inline void load(const std::byte* p, Floats& to) { to = load_floats(reinterpret_cast<const float*>(p)); }
inline void store(Words a, std::byte* p) { vst1q_u8(reinterpret_cast<std::uint8_t*>(p), vreinterpretq_u8_u32(a.v)); }
inline void store(Floats a, std::byte* p) { store_floats(a, reinterpret_cast<float*>(p)); }

/// Four words of each row, transposed.
template <class Rows>
[[gnu::always_inline]] inline void load_four_words(const Rows& rows, int at, Words* to) {
  const auto row = [&](int r) {
    Words words;
    load(rows(r) + at, words);
    return words.v;
  };
  const uint32x4_t a = row(0), b = row(1), c = row(2), d = row(3);
  const auto join = [&](uint32x4_t ab, uint32x4_t cd, int half) {
    const uint64x2_t x = vreinterpretq_u64_u32(ab), y = vreinterpretq_u64_u32(cd);
    return Words{vreinterpretq_u32_u64(half == 0 ? vtrn1q_u64(x, y) : vtrn2q_u64(x, y))};
  };
  to[0] = join(vtrn1q_u32(a, b), vtrn1q_u32(c, d), 0);
  to[1] = join(vtrn2q_u32(a, b), vtrn2q_u32(c, d), 0);
  to[2] = join(vtrn1q_u32(a, b), vtrn1q_u32(c, d), 1);
  to[3] = join(vtrn2q_u32(a, b), vtrn2q_u32(c, d), 1);
}

template <class Rows>
[[gnu::always_inline]] inline Words load_word(const Rows& rows, int at) {
  std::uint32_t words[4];
  unrolled<4>([&](auto r) { __builtin_memcpy(words + r, rows(r) + at, sizeof words[r]); });
  return {vld1q_u32(words)};
}

template <int n, class Rows>
[[gnu::always_inline]] inline void load_words(const Rows& rows, Words (&to)[n]) {
  unrolled<n / 4>([&](auto i) __attribute__((always_inline)) { load_four_words(rows, 16 * i, to + 4 * i); });
  unrolled<n % 4>([&](auto i)
                      __attribute__((always_inline)) { to[n / 4 * 4 + i] = load_word(rows, 4 * (n / 4 * 4 + i)); });
}

template <class Rows>
[[gnu::always_inline]] inline Floats load_halves(const Rows& rows) {
  std::uint16_t halves[4];
  unrolled<4>([&](auto r) { __builtin_memcpy(halves + r, rows(r), sizeof halves[r]); });
  return {vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(halves)))};
}

template <class Rows>
[[gnu::always_inline]] inline Words load_bytes(const Rows& rows) {
  std::uint32_t bytes[4];
  unrolled<4>([&](auto r) { bytes[r] = static_cast<std::uint8_t>(*rows(r)); });
  return {vld1q_u32(bytes)};
}

inline Words all(std::int32_t value) { return {vreinterpretq_u32_s32(vdupq_n_s32(value))}; }
inline Words all(const std::int8_t* four) {
  std::int32_t word;
  __builtin_memcpy(&word, four, sizeof word);
  return all(word);
}

}  // namespace
}  // namespace vitrine
