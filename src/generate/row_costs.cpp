#include "generate/row_costs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/math.h"

namespace vitrine {
namespace {

constexpr double kLeastSlope = 0.02, kMostSlope = 1.5;

}  // namespace

RowCosts::RowCosts() { assume(); }

/// Gives the numbers of rows that were never measured the cost that follows from the slope.
void RowCosts::assume() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (n_measured_[i] == 0) shape_[i] = assumed(kRows[i]);
  }
}

double RowCosts::shape(double rows) const {
  const auto next = std::lower_bound(kRows.begin(), kRows.end(), rows);
  if (next == kRows.end()) return shape_.back() * rows / kRows.back();
  const auto i = static_cast<std::size_t>(next - kRows.begin());
  if (i == 0) return shape_[0];
  const double part = (rows - kRows[i - 1]) / (kRows[i] - kRows[i - 1]);
  return shape_[i - 1] + part * (shape_[i] - shape_[i - 1]);
}

void RowCosts::measure_prompt(std::int64_t rows, double seconds) {
  constexpr std::int64_t kLeast = 32;  // with fewer, the time is that of reading the weights
  if (rows >= kLeast && base_ == 0) prompt_row_ = seconds / static_cast<double>(rows);
}

void RowCosts::measure(std::int64_t rows, double seconds) {
  if (rows < 1 || seconds <= 0) return;
  const double r = std::min(static_cast<double>(rows), kRows.back());
  if (base_ == 0) {
    base_ = seconds / shape(r);
    if (prompt_row_ > 0) slope_ = std::clamp(prompt_row_ / base_, kLeastSlope, kMostSlope);
    return assume();
  }
  const auto nearest =
      static_cast<std::size_t>(std::min_element(kRows.begin(), kRows.end(),
                                                [&](double a, double b) { return std::abs(a - r) < std::abs(b - r); }) -
                               kRows.begin());
  learn(nearest, r, seconds);
  // More rows do not cost less; what was measured decides.
  for (std::size_t i = nearest + 1; i < kRows.size(); ++i) shape_[i] = std::max(shape_[i], shape_[i - 1]);
  for (std::size_t i = nearest; i > 1; --i) shape_[i - 1] = std::min(shape_[i - 1], shape_[i]);
  for (double& each : shape_) each = std::max(each, 1.0);
}

/// What was not measured for long returns to what is assumed, and the assumption to that of a new model.
void RowCosts::learn(std::size_t nearest, double rows, double seconds) {
  constexpr double kOfBase = 0.3, kLeast = 0.2, kForgotten = 0.0005;
  const double ratio = std::clamp(seconds / (base_ * shape(rows)), 0.25, 4.0);
  base_ *= 1 + (nearest == 0 ? kOfBase : kOfBase / 6) * (ratio - 1);
  slope_ += kForgotten * (kSlope - slope_);
  if (nearest > 0) {
    const double weight = std::max(kLeast, 1 / static_cast<double>(n_measured_[nearest]++ + 2));
    shape_[nearest] *= math::pow(ratio, weight);
    const double own = std::clamp((seconds / base_ - 1) / (rows - 1), kLeastSlope, kMostSlope);
    slope_ += std::max(kLeast, 1 / static_cast<double>(n_slopes_++ + 2)) * (own - slope_);
  }
  assume();
  for (std::size_t i = 1; i < kRows.size(); ++i) {
    if (i != nearest) shape_[i] += kForgotten * (assumed(kRows[i]) - shape_[i]);
  }
}

}  // namespace vitrine
