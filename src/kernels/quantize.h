// Quantizes rows to block formats.
#pragma once

#include <string_view>

#include "kernels/kernels.h"

namespace vitrine {

/// Whether quantize_rows() writes the format.
constexpr bool can_quantize(DType dtype) { return is_blocks(dtype) && dtype < DType::mxfp4_pairs; }

/// Quantizes `rows` rows of `cols` elements, whole blocks. `importance` (cols, finite and at least 0; may be null)
/// weighs the squared errors of a row's elements; q8_0 and mxfp4 do not use it. Without it they and q4_0 have the bytes
/// of ggml's reference. The bytes depend neither on the instruction set nor on other rows. Throws Unsupported for
/// formats that vitrine only reads, BadInput for elements that are not finite or too large for the format; `where`
/// names the tensor.
void quantize_rows(const Kernels& kernels, DType dtype, const float* x, std::int64_t rows, std::int64_t cols,
                   const float* importance, std::byte* y, std::string_view where);

}  // namespace vitrine
