// What the bytes of each block format mean, defined once for a single row and for vectors of rows.
//
// Every format is read as parts of 32 consecutive elements. Element k of a part is
//
//   scale · (code[k] − offset) − min                                        most formats
//   scale · sub_scale[k / 16] · (code[k] − offset) − min · sub_min[k / 16]  formats with halves
//
// Codes are unsigned, and sub-scales and sub-minima are integers of 8 bits. Words holds 32 bits, Floats a float, and
// Pair two integers of 8 bits, of each of several rows; for one row the first two are std::uint32_t and float. A word
// holds four codes, the first in its lowest byte. Source: ggml-org/ggml, src/ggml-common.h (layouts), src/ggml-quants.c
// (dequantize_row_*).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/unrolled.h"
#include "tensor/dtype.h"

namespace vitrine {
namespace {

constexpr int kPart = 32;              // elements
constexpr int kPartWords = kPart / 4;  // words of codes
constexpr std::uint32_t kLow4 = 0x0F0F0F0F, kLow2 = 0x03030303, kLow1 = 0x01010101;

/// What the parts of a format have in common.
struct PartKind {
  int bits;    ///< Codes are below 2^bits.
  int offset;  ///< 0 or a power of two.
  bool has_min;
  bool has_halves;
};

constexpr PartKind part_kind(DType dtype) {
  switch (dtype) {
    case DType::q8_0:
      return {8, 128, false, false};
    case DType::q4_0:
      return {4, 8, false, false};
    case DType::q5_0:
      return {5, 16, false, false};
    case DType::q4_1:
    case DType::q4_k:
      return {4, 0, true, false};
    case DType::q5_1:
    case DType::q5_k:
      return {5, 0, true, false};
    case DType::q2_k:
      return {2, 0, true, true};
    case DType::q3_k:
      return {3, 4, false, true};
    case DType::q6_k:
      return {6, 32, false, true};
    case DType::iq4_nl:
    case DType::iq4_xs:
      return {8, 128, false, false};
    case DType::mxfp4:
    case DType::mxfp4_pairs:
      return {5, 16, false, false};
    case DType::int2:
    case DType::int3:
    case DType::int4:
      return {4, 0, true, false};  // the kind of q4_1: a product of few bits costs what one of four does
    case DType::int8:
      return {8, 128, true, false};
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8_e4m3:
    case DType::nf4:
    case DType::fp4:
      break;  // not multiplied as integers
  }
  return {};
}

template <class Words, class Floats, class Pair>
struct Part {
  Words codes[kPartWords];
  Floats scale;
  Floats min;  ///< Unspecified if the format has none; likewise below.
  Pair sub_scale, sub_min;
};
template <class Reader>
using PartOf = Part<typename Reader::Words, typename Reader::Floats, typename Reader::Pair>;

/// Bits 4 · i to 4 · i + 3 of `bits` as bit 4 of four bytes.
template <class Words>
[[gnu::always_inline]] inline Words fifth_bits(const Words& bits, int i) {
  const Words four = (bits >> (4 * i)) & 0xFU;
  const Words pairs = (four | (four << 14)) & 0x00030003U;
  return ((pairs << 4) | (pairs << 11)) & (kLow1 << 4);
}

/// word >> kBits, or word << −kBits.
template <int kBits, class Words>
[[gnu::always_inline]] inline Words shifted(const Words& word) {
  if constexpr (kBits == 0) {
    return word;
  } else if constexpr (kBits < 0) {
    return word << -kBits;
  } else {
    return word >> kBits;
  }
}

/// Byte i of several words per row.
template <class Words>
[[gnu::always_inline]] inline Words byte_of_words(const Words* words, int i) {
  return (words[i / 4] >> (8 * (i % 4))) & 0xFFU;
}

/// Codes of 4 bits from the 16 bytes at `at`: element i is in the low half of byte i, element 16 + i in the high half.
template <class R, class Words>
[[gnu::always_inline]] inline void read_4_bits(const R& r, int at, Words (&codes)[kPartWords]) {
  Words bytes[4];
  r.template words<4>(at, bytes);
  unrolled<4>([&](auto i) {
    codes[i] = bytes[i] & kLow4;
    codes[4 + i] = (bytes[i] >> 4) & kLow4;
  });
}

/// The same with a fifth bit: that of element i is bit i of the word at `at`, before the 16 bytes.
template <class R, class Words>
[[gnu::always_inline]] inline void read_5_bits(const R& r, int at, Words (&codes)[kPartWords]) {
  Words fifth[1];
  r.template words<1>(at, fifth);
  read_4_bits(r, at + 4, codes);
  unrolled<8>([&](auto i) { codes[i] = codes[i] | fifth_bits(fifth[0], i); });
}

/// The scale and the minimum of q4_1 and q5_1: half d, half m, which is added.
template <class R>
[[gnu::always_inline]] inline void read_scale_and_offset(const R& r, PartOf<R>& part) {
  typename R::Words both[1];
  r.template words<1>(0, both);
  part.scale = low_half(both[0]);
  part.min = -high_half(both[0]);
}

/// Which element of a part has code k. In mxfp4_pairs and int4 the codes of the elements with even numbers come first.
template <DType kType>
constexpr int element_of_code(int k) {
  constexpr bool kPairs = kType == DType::mxfp4_pairs || kType == DType::int4;
  return !kPairs ? k : k < kPart / 2 ? 2 * k : 2 * k - kPart + 1;
}

/// The zero of codes in groups that store none.
template <DType kType>
constexpr int kMiddle = kType == DType::int2   ? 2
                        : kType == DType::int3 ? 4
                        : kType == DType::int4 ? 8
                                               : 128;

/// A block format as an argument.
template <DType kType>
struct Format {
  static constexpr DType kDType = kType;
  static constexpr bool kScalesApart = kType == DType::mxfp4_pairs;
  static constexpr bool kGroups = has_groups(kType);
  static constexpr PartKind kKind = part_kind(kType);
  static constexpr BlockSize kSize = block_size(kType);
  static constexpr int kParts = static_cast<int>(kSize.elements) / kPart;
};

// read_parts(format, reader, emit) calls emit(part) for the parts of one block, in ascending order. A reader has the
// types Words and Floats and, for the block of each row:
//   words<n>(at, to)   n words from byte `at` on
//   half(at)           the half-precision number at byte `at`
//   exponent()         the byte that is stored apart (BlockScales), as a word; only for formats with kScalesApart
//   group_scale(), group_min()   the scale of the block's group, and its product with zero − offset; only with kGroups
// and Pair. Besides operators, Words needs low_half, high_half (the half-precision number there), to_floats (of a
// signed integer), floats_of_bits, byte_pair(word, first) (bytes `first` and first + 1, as signed integers) and
// look_up(word, table) (the entries that the bytes number, below 16). Those of built-in types are declared before this
// header.

// q8_0, 34 bytes: half d, 32 signed bytes q.     y = d q
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::q8_0>, const R& r, Emit emit) {
  PartOf<R> part;
  r.template words<8>(2, part.codes);
  unrolled<8>([&](auto i) { part.codes[i] = part.codes[i] ^ 0x80808080U; });
  part.scale = r.half(0);
  emit(part);
}

// q4_0, 18 bytes: half d, 16 bytes with 4 bits of each element.     y = d (q − 8)
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::q4_0>, const R& r, Emit emit) {
  PartOf<R> part;
  read_4_bits(r, 2, part.codes);
  part.scale = r.half(0);
  emit(part);
}

// q5_0, 22 bytes: half d, 32 bits with the fifth bit of each element, 16 bytes as in q4_0.     y = d (q − 16)
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::q5_0>, const R& r, Emit emit) {
  PartOf<R> part;
  read_5_bits(r, 2, part.codes);
  part.scale = r.half(0);
  emit(part);
}

// q4_1, 20 bytes: half d, half m, 16 bytes as in q4_0.     y = d q + m
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::q4_1>, const R& r, Emit emit) {
  PartOf<R> part;
  read_4_bits(r, 4, part.codes);
  read_scale_and_offset(r, part);
  emit(part);
}

// q5_1, 24 bytes: half d, half m, the rest as in q5_0.     y = d q + m
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::q5_1>, const R& r, Emit emit) {
  PartOf<R> part;
  read_5_bits(r, 4, part.codes);
  read_scale_and_offset(r, part);
  emit(part);
}

/// The eight scales s and the eight minima m of q4_k and q5_k, which have 6 bits each, in the 12 bytes after d and
/// d_min. 0 to 3: the low 6 bits of bytes 0 to 3 (s) and 4 to 7 (m). 4 to 7: the low 4 bits are in the low (s) and high
/// (m) halves of bytes 8 to 11, the upper 2 bits in bits 6 and 7 of bytes 0 to 3 (s) and 4 to 7 (m).
template <class Words>
struct SixBits {
  Words scales[2], mins[2];

  [[gnu::always_inline]] explicit SixBits(const Words* from)
      : scales{from[0] & 0x3F3F3F3FU, (from[2] & kLow4) | ((from[0] >> 2) & 0x30303030U)},
        mins{from[1] & 0x3F3F3F3FU, ((from[2] >> 4) & kLow4) | ((from[1] >> 2) & 0x30303030U)} {}
};

// q4_k, 144 bytes: half d, half d_min, 12 bytes of scales and minima, 128 bytes, 32 for each 64 elements: element i in
// the low half of byte i, element 32 + i in the high half.     y = d s q − d_min m
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::q4_k>, const R& r, Emit emit) {
  typename R::Words head[4];
  r.template words<4>(0, head);
  const typename R::Floats d = low_half(head[0]), d_min = high_half(head[0]);
  const SixBits<typename R::Words> six(head + 1);
  unrolled<4>([&](auto pair) {
    typename R::Words bytes[8];
    r.template words<8>(16 + 32 * pair, bytes);
    unrolled<2>([&](auto high) {
      PartOf<R> part;
      unrolled<8>([&](auto i) { part.codes[i] = shifted<4 * high>(bytes[i]) & kLow4; });
      part.scale = d * to_floats(byte_of_words(six.scales, 2 * pair + high));
      part.min = d_min * to_floats(byte_of_words(six.mins, 2 * pair + high));
      emit(part);
    });
  });
}

// q5_k, 176 bytes: as q4_k, with 32 bytes h before the 128 bytes: the fifth bit of element 32 k + i in bit k of byte i.
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::q5_k>, const R& r, Emit emit) {
  typename R::Words head[4], fifth[8];
  r.template words<4>(0, head);
  r.template words<8>(16, fifth);
  const typename R::Floats d = low_half(head[0]), d_min = high_half(head[0]);
  const SixBits<typename R::Words> six(head + 1);
  unrolled<4>([&](auto pair) {
    typename R::Words bytes[8];
    r.template words<8>(48 + 32 * pair, bytes);
    unrolled<2>([&](auto high) {
      PartOf<R> part;
      unrolled<8>([&](auto i) {
        part.codes[i] = (shifted<4 * high>(bytes[i]) & kLow4) | (shifted<2 * pair + high - 4>(fifth[i]) & 0x10101010U);
      });
      part.scale = d * to_floats(byte_of_words(six.scales, 2 * pair + high));
      part.min = d_min * to_floats(byte_of_words(six.mins, 2 * pair + high));
      emit(part);
    });
  });
}

// q6_k, 210 bytes: 64 bytes for each 128 elements: element i in the low half of byte i, element 64 + i in the high
// half; 32 bytes h for each 128 elements: bits 4 and 5 of element 32 k + i from bit 2k of byte i; 16 signed scales s,
// one for each 16 elements; half d.     y = d s (q − 32)
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::q6_k>, const R& r, Emit emit) {
  typename R::Words scales[4];
  r.template words<4>(192, scales);
  const typename R::Floats d = r.half(208);
  unrolled<2>([&](auto half) {
    typename R::Words low[16], upper[8];
    r.template words<16>(64 * half, low);
    r.template words<8>(128 + 32 * half, upper);
    unrolled<4>([&](auto k) {
      PartOf<R> part;
      unrolled<8>([&](auto i) {
        part.codes[i] =
            (shifted<k / 2 * 4>(low[k % 2 * 8 + i]) & kLow4) | (shifted<2 * k - 4>(upper[i]) & (kLow2 << 4));
      });
      part.scale = d;
      part.sub_scale = byte_pair(scales[2 * half + k / 2], k % 2 * 2);
      emit(part);
    });
  });
}

// q3_k, 110 bytes: 32 bytes h with the third bit of element 32 k + i in bit k of byte i; 64 bytes, 32 for each 128
// elements: element 32 k + i from bit 2k of byte i; 12 bytes with 16 scales s of 6 bits, plus 32: the low 4 bits of
// scales 0 to 7 and 8 to 15 in the low and high halves of bytes 0 to 7, the upper 2 bits of scale i from bit 2 (i / 4)
// of byte 8 + i mod 4; half d.     y = d s (q − 4)
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::q3_k>, const R& r, Emit emit) {
  typename R::Words third[8], scales[3];
  r.template words<8>(0, third);
  r.template words<3>(96, scales);
  const typename R::Floats d = r.half(108);
  typename R::Words sub_scales[4];
  unrolled<4>([&](auto i) {
    const auto six = (shifted<i / 2 * 4>(scales[i % 2]) & kLow4) | (shifted<2 * i - 4>(scales[2]) & (kLow2 << 4));
    sub_scales[i] = ((six ^ 0x80808080U) - 0x20202020U) ^ 0x80808080U;
  });
  unrolled<2>([&](auto half) {
    typename R::Words low[8];
    r.template words<8>(32 + 32 * half, low);
    unrolled<4>([&](auto k) {
      PartOf<R> part;
      unrolled<8>([&](auto i) {
        part.codes[i] = (shifted<2 * k>(low[i]) & kLow2) | (shifted<4 * half + k - 2>(third[i]) & (kLow1 << 2));
      });
      part.scale = d;
      part.sub_scale = byte_pair(sub_scales[2 * half + k / 2], k % 2 * 2);
      emit(part);
    });
  });
}

// q2_k, 84 bytes: 16 bytes, each with the scale s (low half) and minimum m (high half) of 16 elements; 64 bytes as in
// q3_k; half d, half d_min.     y = d s q − d_min m
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::q2_k>, const R& r, Emit emit) {
  typename R::Words scales[4], d[1];
  r.template words<4>(0, scales);
  r.template words<1>(80, d);
  const typename R::Floats scale = low_half(d[0]), min = high_half(d[0]);
  typename R::Words sub_scales[4], sub_mins[4];
  unrolled<4>([&](auto i) { sub_scales[i] = scales[i] & kLow4, sub_mins[i] = (scales[i] >> 4) & kLow4; });
  unrolled<2>([&](auto half) {
    typename R::Words bytes[8];
    r.template words<8>(16 + 32 * half, bytes);
    unrolled<4>([&](auto k) {
      PartOf<R> part;
      unrolled<8>([&](auto i) { part.codes[i] = shifted<2 * k>(bytes[i]) & kLow2; });
      part.scale = scale;
      part.min = min;
      part.sub_scale = byte_pair(sub_scales[2 * half + k / 2], k % 2 * 2);
      part.sub_min = byte_pair(sub_mins[2 * half + k / 2], k % 2 * 2);
      emit(part);
    });
  });
}

/// The values of iq4_nl and iq4_xs, plus 128.
constexpr std::uint8_t kNonLinear[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

// iq4_nl, 18 bytes: half d, 16 bytes as in q4_0.     y = d value[q]
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::iq4_nl>, const R& r, Emit emit) {
  PartOf<R> part;
  read_4_bits(r, 2, part.codes);
  unrolled<8>([&](auto i) { part.codes[i] = look_up(part.codes[i], kNonLinear); });
  part.scale = r.half(0);
  emit(part);
}

// iq4_xs, 136 bytes: half d; 8 scales s of 6 bits, plus 32: 2 bytes with the upper 2 bits of scale i from bit 2i, 4
// bytes with the low 4 bits of scales 2i and 2i + 1 in the low and high half of byte i; 16 bytes as in q4_0 for each 32
// elements.     y = d s value[q]
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::iq4_xs>, const R& r, Emit emit) {
  typename R::Words head[2];
  r.template words<2>(0, head);
  const typename R::Floats d = low_half(head[0]);
  unrolled<8>([&](auto k) {
    PartOf<R> part;
    read_4_bits(r, 8 + 16 * k, part.codes);
    unrolled<8>([&](auto i) { part.codes[i] = look_up(part.codes[i], kNonLinear); });
    const auto six = (shifted<4 * k>(head[1]) & 0xFU) | (shifted<12 + 2 * k>(head[0]) & 0x30U);
    part.scale = d * to_floats(six - 32U);
    emit(part);
  });
}

/// Twice the values of mxfp4, plus 16. Those of E2M1 are 0, 0.5, 1, 1.5, 2, 3, 4, 6, and the same with a sign.
constexpr std::uint8_t kTwiceE2m1[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};

/// 2^(e − 128) as the product of two factors, because 2^-128 is no normal number: 2^(e / 2 − 64), rounded down and up.
template <class Words>
[[gnu::always_inline]] inline auto half_of_e8m0(const Words& e) {
  const auto power = [](const Words& half) { return floats_of_bits((half - (0U - 63U)) << 23); };
  return power(e >> 1) * power((e - (0U - 1U)) >> 1);
}

// mxfp4, 17 bytes: an exponent e, 16 bytes as in q4_0.     y = 2^(e − 128) twice_value[q]
// Source: Open Compute Project, Microscaling Formats (MX) 1.0, MXFP4.
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::mxfp4>, const R& r, Emit emit) {
  PartOf<R> part;
  typename R::Words head[1];
  r.template words<1>(0, head);
  read_4_bits(r, 1, part.codes);
  unrolled<8>([&](auto i) { part.codes[i] = look_up(part.codes[i], kTwiceE2m1); });
  part.scale = half_of_e8m0(head[0] & 0xFFU);
  emit(part);
}

// mxfp4_pairs, 16 bytes: element 2i in the low half of byte i, element 2i + 1 in the high half. The exponents are
// apart. Source: huggingface/transformers, integrations/mxfp4.py.
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::mxfp4_pairs>, const R& r, Emit emit) {
  PartOf<R> part;
  read_4_bits(r, 0, part.codes);
  unrolled<8>([&](auto i) { part.codes[i] = look_up(part.codes[i], kTwiceE2m1); });
  part.scale = half_of_e8m0(r.exponent());
  emit(part);
}

/// The scale of a group, and what is subtracted: scale · (code − zero) = scale · (code − offset) − scale · (zero −
/// offset). Scales are halves or bfloat16 numbers and zeros have at most 8 bits in nearly all files, so both sides are
/// exact.
template <class R>
[[gnu::always_inline]] inline void read_group(const R& r, PartOf<R>& part) {
  part.scale = r.group_scale();
  part.min = r.group_min();
}

// int2, 8 bytes: element 8 k + i from bit 2k of byte i.     y = s (q − z), with s and z of the group
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::int2>, const R& r, Emit emit) {
  PartOf<R> part;
  typename R::Words bytes[2];
  r.template words<2>(0, bytes);
  unrolled<8>([&](auto i) { part.codes[i] = shifted<i / 2 * 2>(bytes[i % 2]) & kLow2; });
  read_group(r, part);
  emit(part);
}

// int3, 12 bytes: a word with the third bit of element i in bit i, 8 bytes as in int2.     y = s (q − z)
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::int3>, const R& r, Emit emit) {
  PartOf<R> part;
  typename R::Words words[3];
  r.template words<3>(0, words);
  unrolled<8>(
      [&](auto i) { part.codes[i] = (shifted<i / 2 * 2>(words[1 + i % 2]) & kLow2) | (fifth_bits(words[0], i) >> 2); });
  read_group(r, part);
  emit(part);
}

// int4, 16 bytes: element 2i in the low half of byte i, element 2i + 1 in the high half.     y = s (q − z)
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::int4>, const R& r, Emit emit) {
  PartOf<R> part;
  read_4_bits(r, 0, part.codes);
  read_group(r, part);
  emit(part);
}

// int8, 32 bytes, each a code − 128, signed.     y = s (q − z)
template <class R, class Emit>
[[gnu::always_inline]] inline void read_parts(Format<DType::int8>, const R& r, Emit emit) {
  PartOf<R> part;
  r.template words<8>(0, part.codes);
  unrolled<8>([&](auto i) { part.codes[i] = part.codes[i] ^ 0x80808080U; });
  read_group(r, part);
  emit(part);
}

}  // namespace
}  // namespace vitrine
