// Several residual streams of one stack, next to each other in a row: x `[T, n · d]` has n streams of d elements.
// Source: Baykal et al. 2023 (AltUp).
#pragma once

#include "pass/pass.h"

namespace vitrine {

/// y_b = x_b + Σ_a c[b, a] · x_a of every row; `coefs` is `[T, n · n]`. The products are summed by ascending a, then
/// x_b is added.
///
///   dx_a = dy_a + Σ_b c[b, a] · dy_b          dc[b, a] = Σ_i x_a · dy_b
Tensor predict_streams(Pass& p, const Tensor& x, const Tensor& coefs);

/// y_b = x_b + (1 + c[b]) · (made − x_active); `coefs` is `[T, n]`, `made` `[T, d]`.
///
///   dx_b = dy_b      dmade = −dx_active = Σ_b (1 + c[b]) · dy_b      dc[b] = Σ_i (made − x_active) · dy_b
Tensor correct_streams(Pass& p, const Tensor& x, const Tensor& coefs, const Tensor& made, std::int64_t active);

/// y_b = x_b + added from stream `first` on, else x_b; `added` is `[T, d]`.
Tensor add_to_streams(Pass& p, const Tensor& x, const Tensor& added, std::int64_t first);

/// y = x · √(mean like²) / √(max(mean x², 1e-5)), by row: x with the magnitude of `like`.
///
///   with m and q the two roots and s = Σ x · dy: dlike = s · like / (d · m · q), dx = dy · m / q − x · s · m / (d ·
///   q³), the second term only above the minimum
Tensor match_magnitude(Pass& p, const Tensor& x, const Tensor& like);

}  // namespace vitrine
