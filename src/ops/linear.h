// The linear map: y = x · Wᵀ + b.
//
//   y[t, o]   = Σ_i x[t, i] · w[o, i] + b[o]      x [T, in], w [out, in], b [out] (optional), y [T, out]
//   dx[t, i] += Σ_o dy[t, o] · w[o, i]
//   dw[o, i] += Σ_t dy[t, o] · x[t, i]            db[o] += Σ_t dy[t, o]
//
// A weight in blocks is multiplied as integers by x rounded to 8 bits (BlockKernels), if Pass::compute is not f32 and
// there is no tape. A bf16 weight is multiplied by x rounded to bfloat16 (PairKernels), if Pass::compute is bf16 and
// there is no tape. Otherwise a weight is multiplied as float32. If it is quantized, it is dequantized in panels and
// multiplied as float32, with the bits of the product with the whole dequantized weight. Gradients flow through it to
// x, but the weight cannot be trained (Gradients::add).
#pragma once

#include "ops/adapt.h"
#include "pass/pass.h"

namespace vitrine {

struct LinearParams {
  Param weight;
  Param bias;  ///< Absent if the map has no bias.
};

/// `[T, out]`. x may have any shape whose rows hold `in` elements. The adapters of the rows' segments change the
/// result; `added` is the site of what they add. `shared`, if given, is used in place of w.weight, whose name selects
/// the adapters: a tied head multiplies by the embedding. `into`, if it has data, is the memory of the product. Throws
/// InternalError if the rows of x have another size.
Tensor linear(Pass& p, const LinearParams& w, const Tensor& x, const std::optional<AddedSite>& added = {},
              const Param* shared = nullptr, const Tensor& into = {});
/// The product alone: without bias and adapters.
Tensor product(Pass& p, const Param& weight, const Tensor& x, std::int64_t first = 0, const Tensor& into = {});
/// The part of the product whose columns of the weight begin at `first`: x has fewer elements than the weight columns.
Tensor linear_part(Pass& p, const LinearParams& w, const Tensor& x, std::int64_t first);
/// dweight[o, first + i] += Σ_t dy[t, o] · x[t, i], if the weight is trained. The bits do not depend on rows of dy that
/// are all zeros.
void add_weight_gradient(Pass& p, const Tensor& x, const Tensor& dy, const Param& weight, std::int64_t first = 0);
/// db[o] += Σ_t dy[t, o], if the bias is trained.
void add_bias_gradient(Pass& p, const Tensor& dy, const Param& bias);
/// y[t] += bias, in place. Does nothing if `bias` is absent.
void add_bias(Pass& p, const Param& bias, const Tensor& y);

/// y[t, r] = Σ_k x[t, k] · w[r, k], in parallel, or y[t, r] += that sum. Rows of y are `ldy` floats apart; x is F32 and
/// has a stride of 1. Not recorded. All products of activations and stored weights use this function.
enum class Into : std::uint8_t { set, add };
void multiply(Pass& p, const MatrixView& x, const MatrixView& weight, float* y, std::int64_t ldy,
              Into into = Into::set);
/// A product of few rows, for one thread: several are computed at the same time. It has the bits of multiply().
class SmallProduct {
 public:
  /// Whether multiply() would not divide the rows of x, or dequantize the weight.
  static bool fits(const Pass& p, const MatrixView& x, const MatrixView& weight);
  /// Takes memory of the arena, which must last.
  SmallProduct(Pass& p, const MatrixView& x, const MatrixView& weight, float* y, std::int64_t ldy, Into into);
  /// Computes it on a thread of the pool.
  void run(const Pass& p, int thread) const;

 private:
  MatrixView x_, weight_;
  float* y_;
  std::int64_t ldy_;
  Tensor rounded_{}, sum_{};  // if x is rounded, if the product is added
};
/// x, whose rows have weight.cols elements, with the values that `multiply` uses: if it computes with integers, x
/// rounded to 8 bits; if it computes with bfloat16 numbers, x rounded to them; else x itself.
Tensor as_multiplied(Pass& p, const Tensor& x, const MatrixView& weight);
inline MatrixView transposed(const MatrixView& m) {
  return {m.data, m.dtype, m.cols, m.rows, m.col_stride, m.row_stride, m.scales.transposed()};
}

}  // namespace vitrine
