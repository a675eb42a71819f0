// The types of stored elements: types of single elements, with scalar conversions to float, and block formats, whose
// elements share a scale. Elements of f8_e4m3, blocks of mxfp4_pairs and codes in groups have scales that are stored
// apart from them (BlockScales, tensor/matrix_view.h).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vitrine {

/// From q8_0 on, these are block formats (module quant), whose elements cannot be addressed one by one. mxfp4_pairs has
/// the values of mxfp4 in the layout of Hugging Face folders: neighbors share a byte. From int2 on, these are codes in
/// groups (quant/groups.h): whole numbers of that many bits, or, in nf4 and fp4, numbers of entries of a table.
enum class DType : std::uint8_t {
  f32,
  f16,
  bf16,
  f8_e4m3,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
  mxfp4_pairs,
  int2,
  int3,
  int4,
  int8,
  nf4,
  fp4
};

constexpr std::size_t kDTypes = 24;

constexpr bool is_blocks(DType dtype) { return dtype >= DType::q8_0; }
/// Whether elements are rounded to fewer bits than those of the types that are trained.
constexpr bool is_quantized(DType dtype) { return dtype >= DType::f8_e4m3; }

/// Whether a type has codes in groups, whose meaning is in GroupTables (tensor/matrix_view.h).
constexpr bool has_groups(DType dtype) { return dtype >= DType::int2; }
/// Whether the kernels can multiply rows of a block format as integers.
constexpr bool has_integer_products(DType dtype) { return is_blocks(dtype) && dtype < DType::nf4; }

/// Bytes of one element; not for block formats.
constexpr std::int64_t size_of(DType dtype) { return dtype == DType::f32 ? 4 : dtype == DType::f8_e4m3 ? 1 : 2; }

constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[kDTypes] = {"f32",   "f16",   "bf16", "f8_e4m3", "q8_0", "q4_0", "q4_1",   "q5_0",
                                                "q5_1",  "q2_k",  "q3_k", "q4_k",    "q5_k", "q6_k", "iq4_nl", "iq4_xs",
                                                "mxfp4", "mxfp4", "int2", "int3",    "int4", "int8", "nf4",    "fp4"};
  return kNames[static_cast<std::size_t>(dtype)];
}

/// The unit of storage: one element, or a block of elements.
struct BlockSize {
  std::int64_t elements;
  std::int64_t bytes;
};

constexpr BlockSize block_size(DType dtype) {
  constexpr BlockSize kSizes[kDTypes] = {{1, 4},     {1, 2},     {1, 2},   {1, 1},     {32, 34},   {32, 18},
                                         {32, 20},   {32, 22},   {32, 24}, {256, 84},  {256, 110}, {256, 144},
                                         {256, 176}, {256, 210}, {32, 18}, {256, 136}, {32, 17},   {32, 16},
                                         {32, 8},    {32, 12},   {32, 16}, {32, 32},   {32, 16},   {32, 16}};
  return kSizes[static_cast<std::size_t>(dtype)];
}

/// Bytes of `n` consecutive elements; in a block format, without an incomplete block at the end.
constexpr std::int64_t bytes_of(DType dtype, std::int64_t n) {
  const BlockSize size = block_size(dtype);
  return size.elements == 1 ? n * size.bytes : n / size.elements * size.bytes;
}

/// bfloat16 is the upper half of a float.
inline float float_from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

/// IEEE binary16 to float, exact; a NaN becomes quiet.
inline float float_from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (std::uint32_t{bits} & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1Fu;
  const std::uint32_t mantissa = bits & 0x3FFu;
  const std::uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | quiet | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

/// E4M3 (a sign, 4 bits of exponent, 3 of mantissa; no infinities) to float, exact.
inline float float_from_f8_e4m3(std::uint8_t bits) {
  const auto half = static_cast<std::uint16_t>((bits & 0x80u) << 8 | (bits & 0x7Fu) << 7);  // 2^-8 of the value
  return (bits & 0x7Fu) == 0x7Fu ? float_from_f16(0x7E00) : float_from_f16(half) * 0x1p8f;
}

/// float to bfloat16, rounded to nearest, ties to even.
inline std::uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);  // quiet NaN
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

/// float to IEEE binary16, rounded to nearest, ties to even; overflow gives infinity.
inline std::uint16_t f16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<std::uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  if (magnitude >= 0x477FF000u) return static_cast<std::uint16_t>(sign | 0x7C00u);  // ≥ 65520 rounds to infinity
  if (magnitude < 0x38800000u) {                                  // below 2^-14: a subnormal, a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;  // the addition rounds: the ulp of 0.5 is 2^-24
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(scaled) - 0x3F000000u));
  }
  const std::uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace vitrine
