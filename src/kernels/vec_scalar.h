// Sixteen floats as plain C++: the definition of every vector operation. vec_avx2.h and vec_avx512.h give the same
// bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/kernels.h"

namespace vitrine {
namespace {

constexpr int kLanes = 16;

// Shapes of register tiles; they do not change a bit. This table is the reference: one output at a time.
constexpr int kPackedTokens = 1;
constexpr int kPackedRows = 1;
constexpr int kFewTokens = 1;
constexpr int few_rows(int, bool) { return 1; }
constexpr PackAbove kPackAbove = {.f32 = 16, .half = 16, .transposed = 4};
constexpr std::int64_t kWhole = 1024;
constexpr int kOneTokenRows = 1;  // rows of weights at once for a single token
constexpr bool kOneTokenBands = false;
constexpr int kFewTokensTransposed = 1;
constexpr int kMixRows = 1;                  // rows of weighted_rows at once
constexpr int mix_vecs(int) { return 1; }    // columns at once, in vectors, for this many rows
constexpr int kScoreTokens = 1;              // queries at once, for keys of integers
constexpr int score_rows(int) { return 1; }  // keys at once, for this many queries

struct Vec {
  float lane[kLanes];
};
struct Mask {
  bool lane[kLanes];
};

// Not inlined: unrolled tiles of sixteen lanes each would take half a minute to compile, and a reference need not be
// fast.
template <class Function>
[[gnu::noinline]] Vec each_lane(Function function) {
  Vec out;
  for (int l = 0; l < kLanes; ++l) out.lane[l] = function(l);
  return out;
}

template <class Function>
[[gnu::noinline]] Mask each_lane_mask(Function function) {
  Mask out;
  for (int l = 0; l < kLanes; ++l) out.lane[l] = function(l);
  return out;
}

/// Element i of an array that need not be aligned.
template <class T>
T element(const void* p, int i) {
  T out;
  std::memcpy(&out, static_cast<const std::byte*>(p) + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return out;
}

template <class T>
inline void set_element(void* p, int i, T value) {
  std::memcpy(static_cast<std::byte*>(p) + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
}

/// As in the instruction, a signaling NaN becomes quiet.
inline float quiet_float_from_f16(std::uint16_t bits) {
  const float value = float_from_f16(bits);
  return value == value ? value : std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | 0x400000u);
}

inline Vec broadcast(float value) {
  return each_lane([=](int) { return value; });
}
inline Vec zero() { return broadcast(0.0f); }

// Loads of the first `count` elements set the other lanes to zero. Such loads and stores access no other memory.
inline Vec load_f32_first(const void* p, int count) {
  return each_lane([=](int l) { return l < count ? element<float>(p, l) : 0.0f; });
}
inline Vec load_bf16_first(const void* p, int count) {
  return each_lane([=](int l) { return l < count ? float_from_bf16(element<std::uint16_t>(p, l)) : 0.0f; });
}
inline Vec load_f16_first(const void* p, int count) {
  return each_lane([=](int l) { return l < count ? quiet_float_from_f16(element<std::uint16_t>(p, l)) : 0.0f; });
}
inline Vec load_i8_first(const void* p, int count) {
  return each_lane([=](int l) { return l < count ? static_cast<float>(element<std::int8_t>(p, l)) : 0.0f; });
}
/// 2^-8 of E4M3 elements, exact.
inline Vec load_f8_first(const void* p, int count) {
  return each_lane([=](int l) { return l < count ? float_from_f8_e4m3(element<std::uint8_t>(p, l)) * 0x1p-8f : 0.0f; });
}
/// Whether 64 elements are numbers.
inline bool are_f8_numbers(const void* p) {
  bool are_numbers = true;
  for (int i = 0; i < 64; ++i) are_numbers = are_numbers && (element<std::uint8_t>(p, i) & 0x7F) != 0x7F;
  return are_numbers;
}
/// The same as load_f8(p) and load_f8(p + 16) for elements that are numbers.
inline void load_f8_numbers(const void* p, Vec (&to)[2]) {
  to[0] = load_f8_first(p, kLanes), to[1] = load_f8_first(static_cast<const std::byte*>(p) + kLanes, kLanes);
}
/// Sixteen floats that codes of 4 bits number.
struct FloatTable {
  float entries[16];
};
inline FloatTable operator*(FloatTable table, float factor) {
  for (float& entry : table.entries) entry *= factor;
  return table;
}
inline FloatTable load_table(const float* p) {
  FloatTable table;
  std::memcpy(table.entries, p, sizeof table.entries);
  return table;
}
/// The entries of the sixteen codes at p, the first of two in the high half of a byte.
inline Vec look_up(const FloatTable& table, const void* p) {
  return each_lane([&](int l) {
    const int byte = element<std::uint8_t>(p, l / 2);
    return table.entries[l % 2 == 0 ? byte >> 4 : byte & 15];
  });
}
/// All lanes are the f16 number at p.
inline Vec broadcast_f16(const void* p) { return broadcast(quiet_float_from_f16(element<std::uint16_t>(p, 0))); }
inline Vec load_f32(const void* p) { return load_f32_first(p, kLanes); }
inline Vec load_bf16(const void* p) { return load_bf16_first(p, kLanes); }
inline Vec load_f16(const void* p) { return load_f16_first(p, kLanes); }
inline Vec load_i8(const void* p) { return load_i8_first(p, kLanes); }
inline Vec load_f8(const void* p) { return load_f8_first(p, kLanes); }

/// The values of the sixteen codes of 4 bits: step · code + offset.
struct FourBitValues {
  Vec step, offset;
};
inline FourBitValues four_bit_values(Vec step, Vec offset) { return {step, offset}; }
/// The values of sixteen codes, the lower or the upper halves of sixteen bytes.
inline Vec load_four_bits(const FourBitValues& values, const void* p, bool upper) {
  return each_lane([&](int l) {
    const int byte = element<std::uint8_t>(p, l);
    return __builtin_fmaf(static_cast<float>(upper ? byte >> 4 : byte & 15), values.step.lane[l],
                          values.offset.lane[l]);
  });
}
/// The same of eight bytes: the lower halves, then the upper ones.
inline Vec load_four_bits_of_8(const FourBitValues& values, const void* p) {
  return each_lane([&](int l) {
    const int byte = element<std::uint8_t>(p, l % 8);
    return __builtin_fmaf(static_cast<float>(l < 8 ? byte & 15 : byte >> 4), values.step.lane[l],
                          values.offset.lane[l]);
  });
}

inline void store_f32_first(Vec a, void* p, int count) {
  for (int l = 0; l < count; ++l) set_element(p, l, a.lane[l]);
}
inline void store_bf16_first(Vec a, void* p, int count) {
  for (int l = 0; l < count; ++l) set_element(p, l, bf16_from_float(a.lane[l]));
}
inline void store_f16_first(Vec a, void* p, int count) {
  for (int l = 0; l < count; ++l) set_element(p, l, f16_from_float(a.lane[l]));
}
inline void store_i8_first(Vec a, void* p, int count) {
  for (int l = 0; l < count; ++l) {
    const long rounded = __builtin_lrintf(a.lane[l]);
    set_element(p, l, static_cast<std::int8_t>(rounded < -128 ? -128 : rounded > 127 ? 127 : rounded));
  }
}
inline void store_f32(Vec a, void* p) { store_f32_first(a, p, kLanes); }
inline void store_bf16(Vec a, void* p) { store_bf16_first(a, p, kLanes); }
inline void store_f16(Vec a, void* p) { store_f16_first(a, p, kLanes); }
inline void store_i8(Vec a, void* p) { store_i8_first(a, p, kLanes); }

inline Vec operator+(Vec a, Vec b) {
  return each_lane([&](int l) { return a.lane[l] + b.lane[l]; });
}
inline Vec operator-(Vec a, Vec b) {
  return each_lane([&](int l) { return a.lane[l] - b.lane[l]; });
}
inline Vec operator*(Vec a, Vec b) {
  return each_lane([&](int l) { return a.lane[l] * b.lane[l]; });
}
inline Vec operator/(Vec a, Vec b) {
  return each_lane([&](int l) { return a.lane[l] / b.lane[l]; });
}
inline Vec sqrt(Vec a) {
  return each_lane([&](int l) { return __builtin_sqrtf(a.lane[l]); });
}
/// a · b + c, rounded once.
inline Vec fma(Vec a, Vec b, Vec c) {
  return each_lane([&](int l) { return __builtin_fmaf(a.lane[l], b.lane[l], c.lane[l]); });
}

inline Mask first_lanes(int count) {
  return each_lane_mask([=](int l) { return l < count; });
}
/// a < b; false if either is NaN.
inline Mask less(Vec a, Vec b) {
  return each_lane_mask([&](int l) { return a.lane[l] < b.lane[l]; });
}
inline Mask is_nan(Vec a) {
  return each_lane_mask([&](int l) { return a.lane[l] != a.lane[l]; });
}
inline bool all(Mask mask) {
  for (const bool lane : mask.lane) {
    if (!lane) return false;
  }
  return true;
}
inline Vec select(Mask mask, Vec yes, Vec no) {
  return each_lane([&](int l) { return mask.lane[l] ? yes.lane[l] : no.lane[l]; });
}

inline Vec abs(Vec a) {
  return each_lane([&](int l) { return __builtin_fabsf(a.lane[l]); });
}
inline Vec with_sign_of(Vec magnitude, Vec sign) {
  return each_lane([&](int l) { return __builtin_copysignf(magnitude.lane[l], sign.lane[l]); });
}
/// Rounds to the nearest integer, ties to even.
inline Vec round_even(Vec a) {
  return each_lane([&](int l) { return __builtin_rintf(a.lane[l]); });
}
/// a · 2^n, rounded once (so also into the subnormals and to infinity). a in [1/2, 2], n an integer in [-200, 200].
inline Vec times_power_of_two(Vec a, Vec n) {
  return each_lane([&](int l) {
    if (n.lane[l] != n.lane[l]) return n.lane[l];
    const auto exponent = static_cast<std::int32_t>(n.lane[l]);
    const std::int32_t half = exponent >> 1;  // the first product is a normal number, so only the second is rounded
    const auto power = [](std::int32_t e) { return std::bit_cast<float>((e + 127) << 23); };
    return a.lane[l] * power(half) * power(exponent - half);
  });
}

/// Sixteen words of 32 bits.
struct Words {
  std::uint32_t lane[kLanes];
};
inline Words load_words(const std::uint32_t* p) {
  Words out;
  for (int l = 0; l < kLanes; ++l) out.lane[l] = p[l];
  return out;
}
/// 32 bfloat16 numbers as sixteen pairs, the number with the lower index in the lower half.
inline Words load_pairs_first(const void* p, int count) {
  Words out;
  for (int l = 0; l < kLanes; ++l) {
    const std::uint32_t even = 2 * l < count ? element<std::uint16_t>(p, 2 * l) : 0u;
    const std::uint32_t odd = 2 * l + 1 < count ? element<std::uint16_t>(p, 2 * l + 1) : 0u;
    out.lane[l] = odd << 16 | even;
  }
  return out;
}
inline Words load_pairs(const void* p) { return load_pairs_first(p, 2 * kLanes); }
inline Vec even_of(Words pairs) {
  return each_lane([&](int l) { return std::bit_cast<float>(pairs.lane[l] << 16); });
}
inline Vec odd_of(Words pairs) {
  return each_lane([&](int l) { return std::bit_cast<float>(pairs.lane[l] & 0xFFFF0000u); });
}
inline Words broadcast_word(std::uint32_t value) {
  Words out;
  for (std::uint32_t& lane : out.lane) lane = value;
  return out;
}
inline Words operator^(Words a, Words b) {
  for (int l = 0; l < kLanes; ++l) a.lane[l] ^= b.lane[l];
  return a;
}
/// The upper and the lower words of a · factor.
inline void multiply_words(Words a, std::uint32_t factor, Words& upper, Words& lower) {
  for (int l = 0; l < kLanes; ++l) {
    const std::uint64_t product = std::uint64_t{a.lane[l]} * factor;
    upper.lane[l] = static_cast<std::uint32_t>(product >> 32);
    lower.lane[l] = static_cast<std::uint32_t>(product);
  }
}
inline Mask less(Words a, std::uint32_t limit) {
  return each_lane_mask([&](int l) { return a.lane[l] < limit; });
}

/// Lanes (1, 0, 3, 2, …).
inline Vec swap_pairs(Vec a) {
  return each_lane([&](int l) { return a.lane[l ^ 1]; });
}
/// The first `count` ≤ 8 elements, each in two adjacent lanes.
inline Vec load_twice_first(const float* p, int count) {
  return each_lane([=](int l) { return l / 2 < count ? element<float>(p, l / 2) : 0.0f; });
}
/// a − b in even lanes, a + b in odd ones.
inline Vec subtract_add(Vec a, Vec b) {
  return each_lane([&](int l) { return l % 2 == 0 ? a.lane[l] - b.lane[l] : a.lane[l] + b.lane[l]; });
}

// The part of the sixteen lanes that one register holds: here, all of them.
constexpr int kPartLanes = 16;
using Part = Vec;
inline Part load_part(const float* p) { return load_f32(p); }
inline void store_part(Part a, float* p) { store_f32(a, p); }
inline Part zero_part() { return zero(); }

/// Lane j of a[i] becomes lane i of a[j].
inline void transpose(Vec (&a)[kLanes]) {
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < i; ++j) {
      const float upper = a[j].lane[i];
      a[j].lane[i] = a[i].lane[j];
      a[i].lane[j] = upper;
    }
  }
}

/// (l, l+8), then (l, l+4), (l, l+2), (l, l+1).
inline float sum_lanes(Vec a) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) a.lane[l] += a.lane[l + half];
  }
  return a.lane[0];
}
inline void sum_lanes_of_4(const Vec* a, float* out) {
  for (int i = 0; i < 4; ++i) out[i] = sum_lanes(a[i]);
}
inline void sum_lanes_of_8(const Vec* a, float* out) {
  sum_lanes_of_4(a, out);
  sum_lanes_of_4(a + 4, out + 4);
}

}  // namespace
}  // namespace vitrine
