// The bytes of a block from its integers: the inverse of quant/parts-inl.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace vitrine {

/// What a block stores. Element i is in part i / part_size.
struct BlockIntegers {
  std::uint8_t codes[256];  ///< Of the elements: unsigned, with the offset of the format (PartKind::offset); indices of
                            ///< a table in iq4_nl and iq4_xs.
  std::int8_t scales[16];   ///< Of the parts of a K-quant and of iq4_xs, signed.
  std::uint8_t mins[16];    ///< Likewise; unused if the format has none.
  std::uint16_t d, d_min;   ///< Half-precision bits. d_min of q4_1 and q5_1 is the minimum that is added.
};

/// The elements that share a scale of a K-quant or iq4_xs; of other formats, the elements of a block.
constexpr int part_size(DType dtype) {
  return dtype == DType::q2_k || dtype == DType::q3_k || dtype == DType::q6_k ? 16 : 32;
}

/// Writes a block of any format but those of mxfp4.
void pack_block(DType dtype, const BlockIntegers& from, std::byte* block);

}  // namespace vitrine
