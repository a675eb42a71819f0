// ggml's block formats: blocks of elements that share a scale, converted to and from float32.
//
// A row consists of whole blocks. Dequantizing computes the same operations as ggml's reference, so every element has
// the same bits; quantizing gives the same bytes as ggml's reference.
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
  /// The inverse; null for formats that vitrine only reads. The floats must be finite. Returns false if a scale is out
  /// of the format's range.
  bool (*quantize)(const float* x, std::byte* block);
};

std::span<const BlockFormat> all_block_formats();
/// Throws InternalError if `dtype` is not a block format.
const BlockFormat& block_format(DType dtype);

/// Converts a row of `n` elements, whole blocks, to floats.
void dequantize_row(DType dtype, const std::byte* x, std::int64_t n, float* y);
/// The inverse. Throws Unsupported if vitrine only reads the format, BadInput for values that are not finite or are too
/// large for the format. `where` names the tensor in errors.
void quantize_row(DType dtype, const float* x, std::int64_t n, std::byte* y, std::string_view where);

}  // namespace vitrine
