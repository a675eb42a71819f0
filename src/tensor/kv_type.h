// The types to which keys and values are rounded.
//
// The integer types have blocks of 32 elements of a row; the last block may be shorter. A row of one K/V head is stored
// as the codes of all blocks, then their scales, then, for int4, their zero points:
//
//   int8   element i = scale · code[i]                    code: 8 bits, −127 to 127
//   int4   element i = scale · (code[i] − zero / 16)      code: 4 bits, 0 to 15; zero: 8 bits
//
// Scales are f16 numbers. The codes of an int4 block are 16 bytes: the low halves are elements 0 to 15, the high halves
// elements 16 to 31. A block of at most 16 elements is 8 bytes: elements 0 to 7, then 8 to 15. Every element is exact
// as a float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace vitrine {

enum class KvType : std::uint8_t { f32, bf16, f16, int8, int4 };

constexpr std::string_view name_of(KvType type) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "f16", "int8", "int4"};
  return kNames[static_cast<std::size_t>(type)];
}

/// The types of keys and of values.
struct KvTypes {
  constexpr KvTypes(KvType both = KvType::f32) : keys(both), values(both) {}  // NOLINT: one type is a pair of it
  constexpr KvTypes(KvType of_keys, KvType of_values) : keys(of_keys), values(of_values) {}

  KvType keys, values;

  bool operator==(const KvTypes&) const = default;
};

/// The types named as in `int8` or `int8:int4`, of keys and of values; nothing for other names.
constexpr std::optional<KvTypes> kv_types_named(std::string_view names) {
  const auto one = [](std::string_view name) -> std::optional<KvType> {
    for (const KvType type : {KvType::f32, KvType::bf16, KvType::f16, KvType::int8, KvType::int4}) {
      if (name_of(type) == name) return type;
    }
    return std::nullopt;
  };
  const std::size_t colon = names.find(':');
  const auto keys = one(names.substr(0, colon));
  const auto values = colon == names.npos ? keys : one(names.substr(colon + 1));
  return keys && values ? std::optional(KvTypes(*keys, *values)) : std::nullopt;
}

constexpr bool is_integer(KvType type) { return type == KvType::int8 || type == KvType::int4; }

/// The type of the elements, if they are not integers.
constexpr DType dtype_of(KvType type) {
  return type == KvType::f32 ? DType::f32 : type == KvType::bf16 ? DType::bf16 : DType::f16;
}

/// The bytes of a row of `n` elements.
constexpr std::int64_t kv_row_bytes(KvType type, std::int64_t n) {
  constexpr std::int64_t kBlock = 32;
  if (!is_integer(type)) return n * size_of(dtype_of(type));
  const std::int64_t rest = n % kBlock, n_blocks = (n + kBlock - 1) / kBlock;
  if (type == KvType::int8) return n + 2 * n_blocks;
  return n / kBlock * 16 + (rest > 16 ? 16 : rest > 0 ? 8 : 0) + 3 * n_blocks;
}

}  // namespace vitrine
