// What a pass that only decodes costs, by its number of rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace vitrine {

/// Seconds of a pass of n rows, learned from those that were measured: base · shape(n), where shape(1) is 1. The base
/// follows the speed of the machine, which may change from one moment to the next; the shape belongs to the model and
/// changes slowly. What has not been measured for long returns to the assumption that it began with, so that one slow
/// pass does not forbid its number of rows forever.
class RowCosts {
 public:
  RowCosts();

  void measure(std::int64_t rows, double seconds);
  /// A pass of prompts alone, before the first that decodes: where rows are many, each costs its arithmetic.
  void measure_prompt(std::int64_t rows, double seconds);
  double seconds(std::int64_t rows) const { return base_ * shape(static_cast<double>(rows)); }
  bool is_measured() const { return base_ > 0; }

 private:
  static constexpr double kSlope = 0.1;  // of a new model: decoding waits for memory, so that a row more costs little
  static constexpr std::array<double, 12> kRows = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

  double shape(double rows) const;
  double assumed(double rows) const { return 1 + slope_ * (rows - 1); }
  void assume();
  void learn(std::size_t nearest, double rows, double seconds);

  double base_ = 0;
  double slope_ = kSlope;  // of the shape where nothing is measured
  double prompt_row_ = 0;  // seconds of a row of a long prompt; 0: none was read
  std::int64_t n_slopes_ = 0;
  std::array<double, kRows.size()> shape_{};
  std::array<std::int64_t, kRows.size()> n_measured_{};
};

}  // namespace vitrine
