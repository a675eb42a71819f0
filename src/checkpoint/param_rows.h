// Rows of stored parameters as floats.
#pragma once

#include <span>

#include "tensor/matrix_view.h"

namespace vitrine {

/// The first elements of one row, whatever the type and the strides of the parameter.
void read_row(const MatrixView& view, std::int64_t row, std::span<float> out);

}  // namespace vitrine
