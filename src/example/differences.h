// Finite differences: the slope of the loss with respect to one parameter, to compare with its gradient.
//
// The forward is in float32, so the difference of two losses is mostly rounding. A slope s is fitted to many of them:
//
//   f(p + x) − f(p − x) ≈ 2 (s x + a x³ + b x⁵ + c x⁷ + d x⁹)    n pairs, x evenly spaced in (0, h]; least squares
//   error of s ≈ √(Σ r² / (n − 5) · [(XᵀX)⁻¹]₁₁)                 r: the residuals of the fit
//
// A wider h reduces the effect of rounding, until the polynomial no longer fits the curvature of the loss. Therefore h
// is halved or doubled until the residuals are as small as rounding, which is measured with tiny x. Pairs are added,
// from 64 to 512, until the error is small. No polynomial fits across a kink (a ReLU that becomes active, another
// choice of experts), so h is also small enough that neither changes. If there is no such h, the difference is marked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "train/trainable.h"

namespace vitrine {

struct Difference {
  double slope = 0;
  double error = 0;     ///< The standard deviation of the slope.
  bool taken = false;   ///< False if there is no difference: a large model has only some.
  bool smooth = false;  ///< Whether the polynomial fits; if not, the slope means nothing.
};

/// Over all gradients that have a difference.
struct DifferenceSummary {
  std::int64_t taken = 0;
  std::int64_t not_smooth = 0;
  double largest = 0;   ///< The largest |gradient − slope| of the smooth ones.
  std::string where;    ///< The element of `largest`.
  double expected = 0;  ///< The error of its slope.
};

class Differences {
 public:
  /// For the loss of predicting `target` after `ids`. by() modifies the parameters of `model` in place and restores
  /// them. `some` is any element that the loss depends on; it is used to measure rounding.
  Differences(const Model& model, std::span<const std::int32_t> ids, std::int32_t target, float* some);

  /// The slope with respect to the element at `p`.
  Difference by(float* p);

 private:
  struct Fit {
    double slope = 0, error = 0;
    double residual = 0;  // root mean square
  };

  class Pairs;

  double loss(Taps* taps = nullptr);
  std::vector<float> choices();
  bool has_no_kink(float* p, double h);
  bool holds(float* p, double h);

  const Model& model_;
  std::span<const std::int32_t> ids_;
  std::int32_t target_;
  ThreadPool pool_;
  Arena arena_;
  std::vector<float> choices_;  // which ReLUs are active and which experts are chosen
  double rounding_ = 0;         // root mean square of the rounding of a difference of two losses
  double h_;                    // the last h that fitted; the search for the next element begins with it
};

}  // namespace vitrine
