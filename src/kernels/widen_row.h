// Rows of stored matrices of any type as floats.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace vitrine {

/// Converts the first n elements (whole blocks, but for codes in groups) of a row of w to floats: exactly, or, in types
/// with scales, with the values by which products with w multiply. If col_stride is not 1, n is 1.
void widen_row(const Kernels& kernels, const MatrixView& w, std::int64_t row, std::int64_t n, float* y);

}  // namespace vitrine
