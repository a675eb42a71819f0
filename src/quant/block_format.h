// ggml's block formats: blocks of elements that share a scale, converted to and from float32.
//
// A row consists of whole blocks. Dequantizing computes the same operations as ggml's reference, so every element has
// the same bits. kernels/quantize.h quantizes.
// Source: ggml-org/ggml, src/ggml-common.h (layouts), src/ggml-quants.c (dequantize_row_*, quantize_row_*_ref).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace vitrine {

struct BlockFormat {
  DType dtype;
  /// Converts one block to block_size(dtype).elements floats.
  void (*dequantize)(const std::byte* block, float* y);
  /// The inverse where the scale follows from the largest element, with the bytes of ggml's reference; null if the
  /// scale is searched for. The floats must be finite. Returns false if the scale is out of the format's range.
  bool (*quantize)(const float* x, std::byte* block);
};

/// All but mxfp4_pairs and codes in groups, whose scales are apart.
std::span<const BlockFormat> all_block_formats();
/// Throws InternalError if `dtype` is not a block format.
const BlockFormat& block_format(DType dtype);

/// Converts a row of `n` elements, whole blocks, to floats. `exponents`: of mxfp4_pairs, one for each block.
void dequantize_row(DType dtype, const std::byte* x, std::int64_t n, float* y, const std::byte* exponents = nullptr);

/// Writes a row of mxfp4_pairs as mxfp4: 17 bytes for each 32 elements.
void copy_mxfp4(const std::byte* pairs, const std::byte* exponents, std::int64_t n, std::byte* to);

}  // namespace vitrine
