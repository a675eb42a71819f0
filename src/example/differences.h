// Finite differences: what the loss does when one parameter is moved, beside the gradient that says what it must do.
//
// The forward computes in float32, so a difference of two losses is mostly rounding. Here a slope is fitted to many:
//
//   f(p + x) − f(p − x) ≈ 2 (s x + a x³ + b x⁵ + c x⁷ + d x⁹)    n pairs, x evenly spread over (0, h]; least squares
//   error of s ≈ √(Σ r² / (n − 5) · [(XᵀX)⁻¹]₁₁)                 r what the fit leaves over
//
// The wider h, the less rounding matters, until the loss bends more than the fit can follow. So h is halved or doubled
// until what is left over is rounding alone, which is measured with x too small to bend anything; and pairs are added,
// from 64 to 512, until the error is small. Across a kink (a ReLU that opens, another choice of experts) no fit holds,
// so h also stays within what leaves all of these as they are; where none does the difference says so.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "train/train_param.h"

namespace vitrine {

struct Difference {
  double slope = 0;
  double error = 0;     ///< What is to be expected of it: one standard deviation.
  bool taken = false;   ///< Of a large matrix only some elements are.
  bool smooth = false;  ///< The fit holds; where not, the slope is worth nothing.
};

/// Over all gradients that stand beside a difference.
struct DifferenceSummary {
  std::int64_t taken = 0;
  std::int64_t not_smooth = 0;
  double largest = 0;  ///< |gradient − slope| where the fit holds.
  std::string where;
  double expected = 0;  ///< The fit's own error there.
};

class Differences {
 public:
  /// Of the loss of `target` behind `ids`. `model` sees changes of the parameters at once, and nobody else may run it.
  /// `some` is an element that the loss depends on: by it rounding is measured.
  Differences(const Model& model, std::span<const std::int32_t> ids, std::int32_t target, float* some);

  /// By the element that `p` points to, which is put back.
  Difference by(float* p);

 private:
  struct Fit {
    double slope = 0, error = 0;
    double left_over = 0;  // root mean square of r
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
  std::vector<float> choices_;  // of ReLUs and routers
  double rounding_ = 0;         // root mean square of a difference of two losses that is nothing else
  double h_;                    // the last that held: elements of one matrix are alike
};

}  // namespace vitrine
