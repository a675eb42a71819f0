// Blocks of elements that share a scale, as ggml defines them: each format's layout, to floats and from floats.
//
// A row is whole blocks, one after the other. Dequantizing is exact in the sense that every element is the float32
// that ggml's reference computes, operation by operation; quantizing gives the very bytes of ggml's reference.
// Source: ggml-org/ggml, src/ggml-common.h (layouts), src/ggml-quants.c (dequantize_row_*, quantize_row_*_ref).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace vitrine {

struct BlockFormat {
  DType dtype;
  /// One block to block_size(dtype).elements floats.
  void (*dequantize)(const std::byte* block, float* y);
  /// The other way; null for formats that are only read. Finite floats only. False where a scale is beyond what the
  /// format can hold.
  bool (*quantize)(const float* x, std::byte* block);
};

/// All formats of blocks.
std::span<const BlockFormat> all_block_formats();
/// Throws InternalError for a type of single elements.
const BlockFormat& block_format(DType dtype);

/// A row of `n` elements, whole blocks, to floats.
void dequantize_row(DType dtype, const std::byte* x, std::int64_t n, float* y);
/// The other way. Throws Unsupported for a format that is only read, BadInput, with `where`, for values that are not
/// finite or too large for the format.
void quantize_row(DType dtype, const float* x, std::int64_t n, std::byte* y, std::string_view where);

}  // namespace vitrine
