// Sums, products and activation functions, element by element.
#pragma once

#include <array>
#include <string_view>

#include "pass/pass.h"

namespace vitrine {

/// The names of transformers (ACT2FN).
constexpr std::array<std::string_view, 6> words(Activation) {
  return {"relu", "silu", "gelu_pytorch_tanh", "gelu", "tanh", "relu2"};
}

/// to += from, in place, for two tensors of the same shape. Not recorded; used for gradients.
void accumulate(Pass& p, const Tensor& from, const Tensor& to);
/// a + b; both have the same shape.
Tensor add(Pass& p, const Tensor& a, const Tensor& b);
/// factor · x. Returns x itself if `factor` is 1.
Tensor scale(Pass& p, float factor, const Tensor& x);
/// act(x)
Tensor activate(Pass& p, Activation activation, const Tensor& x);
/// 1 / (1 + exp(−x))
Tensor sigmoid(Pass& p, const Tensor& x);
/// Multiplies row t of x by the number factor[t]; `factor` is `[T, 1]`.
Tensor multiply_rows(Pass& p, const Tensor& x, const Tensor& factor);
/// Multiplies column i of x `[T, n]` by w[i].
Tensor multiply_columns(Pass& p, const Tensor& x, const Param& w);
/// a · b, element by element; both have the same shape.
Tensor hadamard(Pass& p, const Tensor& a, const Tensor& b);
/// act(gate) · up: a gated linear unit (Shazeer 2020). The activated gate is rounded before the product.
Tensor gated(Pass& p, Activation activation, const Tensor& gate, const Tensor& up);
/// cap · tanh(x / cap) (Gemma Team 2024, section 2).
Tensor softcap(Pass& p, float cap, const Tensor& x);
inline Tensor tanh(Pass& p, const Tensor& x) { return softcap(p, 1.0f, x); }
/// min(max(x, −limit), limit)
Tensor clamp(Pass& p, float limit, const Tensor& x);
/// slope = 1 − (y / cap)², the derivative of y = softcap(x).
inline void softcap_slope(const float* y, std::int64_t n, float cap, float* slope) {
  for (std::int64_t i = 0; i < n; ++i) slope[i] = 1.0f - (y[i] / cap) * (y[i] / cap);
}
/// [a[t] ; b[t]]: the rows of a and b next to each other.
Tensor concat(Pass& p, const Tensor& a, const Tensor& b);
/// [a ; b ; …]: the values of tensors of one shape, one after another, `[n, …]`.
Tensor stack(Pass& p, std::span<const Tensor> parts);
/// x: the same tensor, or, with a tape, a copy with its own gradient.
Tensor copy(Pass& p, const Tensor& x);
/// Rows [first, first + count) of x: a view, or, with a tape, a copy with its own gradient.
Tensor row_range(Pass& p, const Tensor& x, std::int64_t first, std::int64_t count);
/// Columns [first, first + count) of x `[T, n]`: a copy.
Tensor columns(Pass& p, const Tensor& x, std::int64_t first, std::int64_t count);

}  // namespace vitrine
