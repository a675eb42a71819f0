// The linear map: y = x · Wᵀ + b.
//
//   y[t, o]   = Σ_i x[t, i] · w[o, i] + b[o]      x [T, in], w [out, in], b [out] (optional), y [T, out]
//   dx[t, i] += Σ_o dy[t, o] · w[o, i]
//   dw[o, i] += Σ_t dy[t, o] · x[t, i]            db[o] += Σ_t dy[t, o]
//
// A quantized weight is dequantized as it is needed, some rows at a time, and multiplied as float32: the same bits as
// the product with all of its dequantized elements. It has no gradient.
#pragma once

#include "pass/pass.h"

namespace vitrine {

struct LinearParams {
  Param weight;
  Param bias;  ///< Absent: none.
};

/// `[T, out]`. x may have any shape whose rows hold `in` elements. Throws InternalError on a row of another size.
Tensor linear(Pass& p, const LinearParams& w, const Tensor& x);
/// The product alone.
Tensor linear(Pass& p, const Param& weight, const Tensor& x);
/// Throws Unsupported for a weight of quantized blocks: gradients do not go through it.
void check_has_backward(const Param& weight);
/// `n` rows of `size` floats, `stride` apart.
struct StridedRows {
  float* data;
  std::int64_t stride, n, size;
};
/// y[t, o] = Σ_i x[t, i] · w[o, first_col + i], in this thread. x and y may be columns of wider tensors. Not recorded.
void product(Pass& p, const MatrixView& weight, std::int64_t first_col, const StridedRows& x, const StridedRows& y);
/// y[t] += bias, in place; nothing where the bias is absent.
void add_bias(Pass& p, const Param& bias, const Tensor& y);

}  // namespace vitrine
