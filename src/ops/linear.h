// The linear map: y = x · Wᵀ + b.
//
//   y[t, o]   = Σ_i x[t, i] · w[o, i] + b[o]      x [T, in], w [out, in], b [out] (optional), y [T, out]
//   dx[t, i] += Σ_o dy[t, o] · w[o, i]
//   dw[o, i] += Σ_t dy[t, o] · x[t, i]            db[o] += Σ_t dy[t, o]
//
// A quantized weight is dequantized in panels and multiplied as float32, with the same bits as the product with all of
// its dequantized elements. Gradients flow through it to x; it cannot learn itself (Gradients::add refuses it).
#pragma once

#include "pass/pass.h"

namespace vitrine {

struct LinearParams {
  Param weight;
  Param bias;  ///< Absent: none.
};

/// `[T, out]`. x may have any shape whose rows hold `in` elements. `shared`, if given, is used in place of w.weight: a
/// tied head multiplies by the embedding. Throws InternalError on a row of another size.
Tensor linear(Pass& p, const LinearParams& w, const Tensor& x, const Param* shared = nullptr);
/// y[t] += bias, in place; nothing if there is no bias.
void add_bias(Pass& p, const Param& bias, const Tensor& y);

/// y[t, r] = Σ_k x[t, k] · w[r, k] in float32, over threads, or y[t, r] += that sum; rows of y are `ldy` floats apart.
/// x is F32 with one stride of 1. Not recorded. All products of activations and stored weights come through here.
enum class Into : std::uint8_t { set, add };
void multiply(Pass& p, const MatrixView& x, const MatrixView& weight, float* y, std::int64_t ldy,
              Into into = Into::set);
inline MatrixView transposed(const MatrixView& m) {
  return {m.data, m.dtype, m.cols, m.rows, m.col_stride, m.row_stride};
}

}  // namespace vitrine
