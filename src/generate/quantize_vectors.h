// Vectors of texts in fewer bits, with the arithmetic of sentence-transformers (util/quantization.py, 6.2.0).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vitrine {

/// int8, uint8: floor((x − low) / step), step = (high − low) / 255 in float32, within [0, 255]; int8: minus 128.
/// ubinary: a bit for each element, 1 if it is greater than 0, the first in the highest bit of the first byte. binary:
/// the bytes minus 128.
enum class VectorPrecision : std::uint8_t { float32, int8, uint8, binary, ubinary };
constexpr std::array<std::string_view, 5> words(VectorPrecision) {
  return {"float32", "int8", "uint8", "binary", "ubinary"};
}
/// Whether the arithmetic needs ranges.
constexpr bool has_ranges(VectorPrecision p) { return p == VectorPrecision::int8 || p == VectorPrecision::uint8; }
constexpr bool is_signed(VectorPrecision p) { return p == VectorPrecision::int8 || p == VectorPrecision::binary; }

/// The smallest and the largest value of each element.
struct VectorRanges {
  std::vector<float> low{}, high{};

  /// Takes a vector of as many elements as those before it.
  void add(std::span<const float> vector);
};

/// The bytes of a vector, those of signed types in two's complement; not for float32. Throws BadInput for ranges of
/// another number of elements.
std::vector<std::uint8_t> quantized(std::span<const float> vector, VectorPrecision precision,
                                    const VectorRanges& ranges);

}  // namespace vitrine
