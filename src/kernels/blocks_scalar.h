// Several rows of a quantized matrix in plain C++: the definition of what blocks_m256.h and blocks_m512.h do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/dtype.h"

namespace vitrine {
namespace {

constexpr int kRowLanes = 4;    // rows at once
constexpr int kDirectRows = 1;  // rows of x up to which a matrix is read without a panel
constexpr int kTileRows = 4;    // rows of x in a register tile
constexpr int kTileGroups = 1;  // groups of kRowLanes rows of w in a register tile
constexpr int kBytesAhead = 0;  // how far ahead each stream of w is prefetched when it is read without a panel

struct Words {
  std::uint32_t lane[kRowLanes];
};
struct Floats {
  float lane[kRowLanes];
};

template <class Result, class Function>
inline Result each_row(Function function) {
  Result out;
  for (int r = 0; r < kRowLanes; ++r) out.lane[r] = function(r);
  return out;
}

inline Words operator&(Words a, std::uint32_t b) {
  return each_row<Words>([&](int r) { return a.lane[r] & b; });
}
inline Words operator^(Words a, std::uint32_t b) {
  return each_row<Words>([&](int r) { return a.lane[r] ^ b; });
}
inline Words operator|(Words a, Words b) {
  return each_row<Words>([&](int r) { return a.lane[r] | b.lane[r]; });
}
inline Words operator-(Words a, std::uint32_t b) {
  return each_row<Words>([&](int r) { return a.lane[r] - b; });
}
inline Words operator<<(Words a, int bits) {
  return each_row<Words>([&](int r) { return a.lane[r] << bits; });
}
inline Words operator>>(Words a, int bits) {
  return each_row<Words>([&](int r) { return a.lane[r] >> bits; });
}
inline Floats to_floats(Words a) {
  return each_row<Floats>([&](int r) { return static_cast<float>(static_cast<std::int32_t>(a.lane[r])); });
}
inline float widened_half(std::uint32_t bits) { return float_from_f16(static_cast<std::uint16_t>(bits)); }
inline Floats floats_of_bits(Words a) {
  return each_row<Floats>([&](int r) { return __builtin_bit_cast(float, a.lane[r]); });
}
/// The entries of a table that the bytes number.
inline Words look_up(Words bytes, const std::uint8_t (&table)[16]) {
  return each_row<Words>([&](int r) {
    std::uint32_t out = 0;
    for (int i = 0; i < 32; i += 8) out |= std::uint32_t{table[(bytes.lane[r] >> i) & 0xFU]} << i;
    return out;
  });
}
inline Floats low_half(Words a) {
  return each_row<Floats>([&](int r) { return widened_half(a.lane[r] & 0xFFFFU); });
}
inline Floats high_half(Words a) { return low_half(a >> 16); }

inline Floats broadcast(float value) {
  return each_row<Floats>([&](int) { return value; });
}
inline Floats operator*(Floats a, Floats b) {
  return each_row<Floats>([&](int r) { return a.lane[r] * b.lane[r]; });
}
inline Floats operator-(Floats a) {
  return each_row<Floats>([&](int r) { return -a.lane[r]; });
}
inline Floats fma(Floats a, Floats b, Floats c) {
  return each_row<Floats>([&](int r) { return __builtin_fmaf(a.lane[r], b.lane[r], c.lane[r]); });
}
inline Floats load_floats(const float* p) {
  return each_row<Floats>([&](int r) { return p[r]; });
}
inline void store_floats(Floats a, float* p) { std::memcpy(p, a.lane, sizeof a.lane); }
inline void load(const std::byte* p, Words& to) { std::memcpy(to.lane, p, sizeof to.lane); }
inline void load(const std::byte* p, Floats& to) { std::memcpy(to.lane, p, sizeof to.lane); }
inline void store(Words a, std::byte* p) { std::memcpy(p, a.lane, sizeof a.lane); }
inline void store(Floats a, std::byte* p) { std::memcpy(p, a.lane, sizeof a.lane); }

/// n words of each row: word i of row r is at byte 4 i of rows(r).
template <int n, class Rows>
inline void load_words(const Rows& rows, Words (&to)[n]) {
  for (int r = 0; r < kRowLanes; ++r) {
    for (int i = 0; i < n; ++i) std::memcpy(&to[i].lane[r], rows(r) + 4 * i, 4);
  }
}
/// The half-precision number at rows(r).
template <class Rows>
inline Floats load_halves(const Rows& rows) {
  return each_row<Floats>([&](int r) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, rows(r), sizeof bits);
    return widened_half(bits);
  });
}

/// `value`, or four signed bytes, in every row.
inline Words all(std::int32_t value) {
  return each_row<Words>([&](int) { return static_cast<std::uint32_t>(value); });
}
inline Words all(const std::int8_t* four) {
  std::int32_t word = 0;
  std::memcpy(&word, four, sizeof word);
  return all(word);
}
/// sums + Σ_k code[k] · x[k] over the four unsigned codes and the four signed bytes of a word.
inline Words add_products(Words sums, Words codes, Words x) {
  return each_row<Words>([&](int r) {
    std::uint32_t sum = sums.lane[r];
    for (int i = 0; i < 32; i += 8) {
      sum += ((codes.lane[r] >> i) & 0xFFU) * static_cast<std::uint32_t>(static_cast<std::int8_t>(x.lane[r] >> i));
    }
    return sum;
  });
}

}  // namespace
}  // namespace vitrine
