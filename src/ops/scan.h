// The scan of a recurrent cell over the rows of a pass (ops/recurrent.h), and its backward.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ops/additive.h"
#include "ops/recurrent.h"

namespace vitrine {

/// A sequence of the pass, without its padding.
struct Lane {
  std::size_t segment;
  std::int64_t first_row, length;
};

/// The values at a site, `[T, d_hidden]`, if a tap wants them; with a tape also the derivative of the tap's changes,
/// and the gradient.
struct TappedRows {
  SiteId site;
  Tensor values{}, factor{}, gradient{};
};

class Scan {
 public:
  Scan(Pass& p, BlockSite at, Direction direction, const CellConfig& c, const CellParams& w, const Tensor& inputs,
       const CellStates& first, const CellStates& last, std::shared_ptr<AdditiveAttention> attention);

  void run();
  void backward();

  Tensor h;  // [T, d_hidden]

 private:
  static constexpr std::size_t kI = 0, kF = 1, kG = 2, kO = 3, kC = 4;  // of an LSTM, as in sites_of
  static constexpr std::size_t kR = 0, kZ = 1, kN = 2;                  // of a GRU

  // gates   z + u after the activation, in place of the inputs    [T, G · d]
  // c       of an LSTM                                            [T, d]
  // state   of a GRU: W_hn h + b_hn, which r multiplies           [T, d]
  Pass& p_;
  Direction direction_;
  const CellConfig& c_;
  const CellParams& w_;
  std::int64_t d_, n_steps_ = 0;
  Tensor gates_, state_, cells_, contexts_;
  CellStates first_, last_;
  std::shared_ptr<AdditiveAttention> attention_;
  std::vector<Lane> lanes_;
  std::vector<TappedRows> taps_;
  const float* bias_ = nullptr;  // b_hh
  bool is_tapped_ = false;

  struct StepGradients {
    Tensor h, c;              // of the states after the step, [n_lanes, d]
    Tensor gates;             // of z, [T, G · d]
    Tensor products;          // of u, [T, G · d]; the same as `gates`, except those of a GRU
    Tensor rows, contexts{};  // of the lanes of a step: du [n, G · d], dcontext [n, d_encoder]
    MatrixView weight{};      // W_hhᵀ
    Tensor input_rows{};      // dz of these lanes [n, G · d]
  };

  std::int64_t row_of(const Lane& lane, std::int64_t step) const {
    return direction_ == Direction::forward ? lane.first_row + step : lane.first_row + lane.length - 1 - step;
  }
  std::int64_t n_running(std::int64_t step) const {
    return std::partition_point(lanes_.begin(), lanes_.end(), [=](const Lane& l) { return l.length > step; }) -
           lanes_.begin();
  }
  const Lane& lane(std::int64_t i) const { return lanes_[static_cast<std::size_t>(i)]; }
  /// The values after the row before the lane's step; null: zeros.
  const float* before(const Tensor& values, const Tensor& first, const Lane& lane, std::int64_t step) const {
    if (step > 0) return values.row(row_of(lane, step - 1));
    return first.data != nullptr ? first.row(static_cast<std::int64_t>(lane.segment)) : nullptr;
  }
  void copy_before(const Tensor& values, const Tensor& first, const Lane& lane, std::int64_t step, float* to) const;
  std::vector<AdditiveAttention::Row> rows_at(std::int64_t step, std::int64_t n) const;

  float* gate(std::int64_t row, std::size_t i) const { return gates_.row(row) + static_cast<std::int64_t>(i) * d_; }
  /// The gate as the cell uses it: after the tap's changes.
  const float* used(std::int64_t row, std::size_t i) const {
    return taps_[i].values.data != nullptr ? taps_[i].values.row(row) : gate(row, i);
  }
  void tap(std::size_t i, std::int64_t row, float* values, bool in_place);
  void tap_gate(std::size_t i, std::int64_t row) { tap(i, row, gate(row, i), false); }
  void add_context(std::int64_t step, std::int64_t n, const Tensor& states);
  void step(std::int64_t step);
  void step_row(const Lane& lane, std::int64_t step, const float* products);
  void lstm_row(const Lane& lane, std::int64_t step, std::int64_t row);
  void gru_row(const Lane& lane, std::int64_t step, std::int64_t row, const float* products);

  void untap(std::size_t i, std::int64_t row, float* gradient) const;
  void step_backward(std::int64_t step, const StepGradients& d, const Tensor& dh);
  void row_backward(std::int64_t i, std::int64_t step, const StepGradients& d, float* dh, float* scratch) const;
  void lstm_row_backward(std::int64_t i, std::int64_t step, const StepGradients& d, const float* dh, float* t) const;
  void gru_row_backward(std::int64_t i, std::int64_t step, const StepGradients& d, float* dh, float* t) const;
  void finish_backward(const StepGradients& d);
};

}  // namespace vitrine
