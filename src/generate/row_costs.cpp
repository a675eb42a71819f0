#include "generate/row_costs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/math.h"

namespace vitrine {
namespace {

/// The shape before anything is measured: decoding waits for memory, so that a row more costs little.
double assumed(double rows) { return 1 + 0.1 * (rows - 1); }

}  // namespace

RowCosts::RowCosts() { std::transform(kRows.begin(), kRows.end(), shape_.begin(), assumed); }

double RowCosts::shape(double rows) const {
  const auto next = std::lower_bound(kRows.begin(), kRows.end(), rows);
  if (next == kRows.end()) return shape_.back() * rows / kRows.back();
  const auto i = static_cast<std::size_t>(next - kRows.begin());
  if (i == 0) return shape_[0];
  const double part = (rows - kRows[i - 1]) / (kRows[i] - kRows[i - 1]);
  return shape_[i - 1] + part * (shape_[i] - shape_[i - 1]);
}

void RowCosts::measure(std::int64_t rows, double seconds) {
  if (rows < 1 || seconds <= 0) return;
  const double r = std::min(static_cast<double>(rows), kRows.back());
  if (base_ == 0) {
    base_ = seconds / shape(r);
    return;
  }
  const double ratio = std::clamp(seconds / (base_ * shape(r)), 0.25, 4.0);
  const auto nearest =
      static_cast<std::size_t>(std::min_element(kRows.begin(), kRows.end(),
                                                [&](double a, double b) { return std::abs(a - r) < std::abs(b - r); }) -
                               kRows.begin());
  constexpr double kOfBase = 0.3, kLeast = 0.2, kForgotten = 0.0005;
  if (nearest > 0) {
    const double weight = std::max(kLeast, 1 / static_cast<double>(n_measured_[nearest]++ + 2));
    shape_[nearest] *= math::pow(ratio, weight);
  }
  base_ *= math::pow(ratio, nearest == 0 ? kOfBase : kOfBase / 6);
  for (std::size_t i = 1; i < kRows.size(); ++i) {
    if (i != nearest) shape_[i] += kForgotten * (assumed(kRows[i]) - shape_[i]);
    // More rows do not cost less; what was measured decides.
    if (i > nearest) shape_[i] = std::max(shape_[i], shape_[i - 1]);
  }
  for (std::size_t i = nearest; i > 1; --i) shape_[i - 1] = std::min(shape_[i - 1], shape_[i]);
  for (double& each : shape_) each = std::max(each, 1.0);
}

}  // namespace vitrine
