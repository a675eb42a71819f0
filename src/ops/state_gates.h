// The gates of mixers with a state: how large a step of each token is, how much of the state it keeps, and vectors of
// unit length.
#pragma once

#include <limits>

#include "pass/pass.h"

namespace vitrine {

/// The steps of a state have a least and a largest size.
struct StepLimits {
  float least = 0.0f, most = std::numeric_limits<float>::infinity();

  bool operator==(const StepLimits&) const = default;
};

/// step = clamp(softplus(x + bias), limits) for x `[T, n]`, bias `[n]` (may be absent).
///
///   dx = dstep · sigmoid(x + bias) within the limits, else 0        dbias = Σ_t dx
Tensor state_steps(Pass& p, const Param& bias, const StepLimits& limits, const Tensor& x);

/// A parameter of rates A < 0, stored as it is, or as log(−A).
struct Rates {
  const Param& stored;
  bool is_log = true;
};

/// A as floats, in the order of the stored elements.
Tensor rates(Pass& p, const Rates& rates);
/// Adds dA to the gradient of the stored parameter, if it is trained.
void add_rate_gradient(Pass& p, const Rates& rates, const Tensor& dA);

/// log decay[t, h, i] = A[h] · step[t, h, i] for steps `[T, H]` or `[T, H, n]`; A has H elements.
///
///   dstep = A · d              dA[h] = Σ_{t, i} step · d
Tensor log_decays(Pass& p, const Rates& rates, const Tensor& steps);

/// y[t, h, p] = step[t, h] · x[t, h, p] for x `[T, H, P]`; steps `[T, H]`, or as many as x.
///
///   dx = step · dy             dstep[t, h] = Σ_p x · dy
Tensor scale_values(Pass& p, const Tensor& steps, const Tensor& x);

/// y = x · w[h] for each head's vectors of x `[T, H, P]`, w `[H]`, or `[H · P]`; then + z: the input of a scan that its
/// output passes by.
///
///   dx = w · dy, dz = dy       dw[h] = Σ_{t, p} x · dy
Tensor add_skipped(Pass& p, const Param& w, const Tensor& x, const Tensor& z);

/// y = factor · x / √(Σ x² + eps) over the last dimension of x `[T, n, d]`.
///
///   with r = √(Σ x² + eps) and s = Σ x · dy: dx = factor · (dy / r − x · s / r³)
Tensor unit_vectors(Pass& p, float eps, float factor, const Tensor& x);

}  // namespace vitrine
