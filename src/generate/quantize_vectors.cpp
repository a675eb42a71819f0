#include "generate/quantize_vectors.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace vitrine {

void VectorRanges::add(std::span<const float> vector) {
  if (low.empty()) {
    low.assign(vector.begin(), vector.end());
    high = low;
    return;
  }
  for (std::size_t i = 0; i < vector.size(); ++i) {
    low[i] = std::min(low[i], vector[i]);
    high[i] = std::max(high[i], vector[i]);
  }
}

std::vector<std::uint8_t> quantized(std::span<const float> vector, VectorPrecision precision,
                                    const VectorRanges& ranges) {
  std::vector<std::uint8_t> bytes;
  const unsigned offset = is_signed(precision) ? 128 : 0;
  if (!has_ranges(precision)) {
    bytes.resize((vector.size() + 7) / 8);
    for (std::size_t i = 0; i < vector.size(); ++i) {
      if (vector[i] > 0) bytes[i / 8] = static_cast<std::uint8_t>(bytes[i / 8] | (0x80U >> (i % 8)));
    }
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(byte - offset);
    return bytes;
  }
  if (ranges.low.size() != vector.size()) {
    throw BadInput("--ranges", "expected ranges of {} elements, got {}", vector.size(), ranges.low.size());
  }
  for (std::size_t i = 0; i < vector.size(); ++i) {
    const float width = (ranges.high[i] - ranges.low[i]) / 255.0f;
    const float step = width == 0 ? 1 : width;
    const float level = std::clamp(std::floor((vector[i] - ranges.low[i]) / step), 0.0f, 255.0f);
    bytes.push_back(static_cast<std::uint8_t>(static_cast<unsigned>(level) - offset));
  }
  return bytes;
}

}  // namespace vitrine
