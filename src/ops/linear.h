// The linear map: y = x · Wᵀ + b.
//
//   y[t, o] = Σ_i x[t, i] · w[o, i] + b[o]      x [T, in], w [out, in], b [out] (optional), y [T, out]
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
Tensor linear(Pass& p, const MatrixView& weight, const Tensor& x);
/// y[t] += bias, in place; nothing where the bias is absent.
void add_bias(Pass& p, const Param& bias, const Tensor& y);

}  // namespace vitrine
