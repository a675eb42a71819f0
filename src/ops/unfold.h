// The neighbours of each row next to each other, so that a linear map of them is a convolution over the rows (im2col).
//
//   y[t, c · k + j]                = x[t + j − (k − 1) / 2, c]         x [T, C], y [T, C · k], k odd
//   dx[t + j − (k − 1) / 2, c]    += dy[t, c · k + j]
//
// Rows outside the text of row t are zeros. The order of the columns is that of a stored kernel `[out, C, k]`. Source:
// torch.nn.Conv1d with padding (k − 1) / 2; torch.nn.Unfold.
#pragma once

#include "pass/pass.h"

namespace vitrine {

/// `[T, C · width]` from x `[T, C]`, the rows of the segments of `stack`, of which padding (Segment::n_padding) is not
/// part of a text.
Tensor unfold(Pass& p, Stack stack, const Tensor& x, std::int64_t width);

}  // namespace vitrine
