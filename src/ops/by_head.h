// The linear map applied head by head, and copies of rows for heads.
//
//   heads_in    y[t, h, o] = Σ_i x[t, h, i] · w[h·m + o, i]      x [T, n, in], w [n·m, in], y [T, n·m]
//   heads_out   y[t, h, o] = Σ_i x[t, h, i] · w[o, h·m + i]      x [T, n, m], w [out, n·m], y [T, n, out]
//   heads_rows  y[t, h, i] = Σ_j x[t, h, j] · w[h·step + first + i, j]                     y [T, n, count]
//               y[t, h, j] = Σ_i x[t, h, i] · w[h·step + first + i, j], if transposed      y [T, n, in]
//
// Sums have the order of `linear`: if all heads read the same row, heads_in is bit-identical to linear. The sum of
// heads_out over heads equals linear except for the order of addition. Weight gradients are summed in token order.
#pragma once

#include "ops/linear.h"

namespace vitrine {

/// Each head's rows times its own rows of the weight, with what adapters add (at the site `added`), plus the bias.
Tensor heads_in(Pass& p, const LinearParams& w, const Tensor& x, const std::optional<AddedSite>& added = {});
/// Each head's rows times its own columns of the weight, with what adapters add for this head, without the bias, which
/// belongs to the sum of the heads.
Tensor heads_out(Pass& p, const LinearParams& w, const Tensor& x);

/// Each head's vectors times its rows of the weight, with what adapters add. If they are multiplied by the transposed
/// rows, x may have more elements than there are rows, which are not read.
Tensor heads_rows(Pass& p, const Param& weight, const HeadRows& rows, const Tensor& x);

/// `[T, n, count]`: elements of each vector of x `[T, n, d]`, from `first` on; if they take turns, those with even
/// numbers, then those with odd numbers.
Tensor part_of_heads(Pass& p, const Tensor& x, std::int64_t first, std::int64_t count, bool takes_turns = false);
/// `[T, n, d]`: n copies of each row of x `[T, d]`.
Tensor repeat(Pass& p, const Tensor& x, std::int64_t n);
/// `[T, n, d]`: every (H / n)-th vector of each row of x `[T, H, d]`, beginning with the first.
Tensor first_of_groups(Pass& p, const Tensor& x, std::int64_t n);

}  // namespace vitrine
