#include <algorithm>

#include "ops/state_taps.h"

namespace vitrine {
namespace {

constexpr std::int64_t kBackRow = StateKernels::kBackwardLanes;

}  // namespace

/// dk = dW w, dw = dWᵀ k
void TappedStates::write_backward() const {
  const StateShape& s = run_.shape_;
  const Tensor dwrite = p_.grad(write_), dkeys = p_.grad(run_.in_.keys), dvalues = p_.grad(run_.in_.values);
  p_.for_rows(write_.rows(), 4 * layout_.size(), [&](std::int64_t t) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t group = s.group_of(h) * s.rows;
      for (std::int64_t l = h * s.lanes; l < (h + 1) * s.lanes; ++l) {
        const float* const from = dwrite.row(t) + l * s.rows;
        p_.kernels.add_scaled(from, s.rows, run_.in_.values.row(t)[l], dkeys.row(t) + group);
        dvalues.row(t)[l] += p_.kernels.dot(from, run_.in_.keys.row(t) + group, s.rows);
      }
    }
  });
}

/// dq = S' do, dS' = q doᵀ
void TappedStates::read_backward() const {
  const StateShape& s = run_.shape_;
  const Tensor dread = p_.grad(read_), dqueries = p_.grad(run_.in_.queries), dout = p_.grad(run_.out);
  p_.for_rows(read_.rows(), 4 * layout_.size(), [&](std::int64_t t) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t group = s.group_of(h) * s.rows, first = h * s.rows * s.lanes;
      const float *const query = run_.in_.queries.row(t) + group, *const g = dout.row(t) + h * s.lanes;
      const float* const state = read_.row(t) + first;
      float *const dstate = dread.row(t) + first, *const dquery = dqueries.row(t) + group;
      for (std::int64_t l = 0; l < s.lanes && layout_.lanes_first; ++l) {
        p_.kernels.add_scaled(state + l * s.rows, s.rows, g[l], dquery);
        p_.kernels.add_scaled(query, s.rows, g[l], dstate + l * s.rows);
      }
      for (std::int64_t i = 0; i < s.rows && !layout_.lanes_first; ++i) {
        dquery[i] += p_.kernels.dot(state + i * s.lanes, g, s.lanes);
        p_.kernels.add_scaled(g, s.lanes, query[i], dstate + i * s.lanes);
      }
    }
  });
}

void TappedStates::scan_backward() {
  const auto wants = [&](const Tensor& value, Site site) {
    return value.data != nullptr && p_.taps->wants_gradient(at_(site));
  };
  // Allocated on this thread. Without an op between, the gradients at the sites are only shown.
  if (reads_apart_ || wants(states_, sites_.state)) dstates_ = p_.grad(states_);
  if (is_rewritten()) {
    dwrite_ = p_.grad(written_);
  } else if (sites_.write && wants(write_, *sites_.write)) {
    dwrite_ = p_.grad(write_);
  }
  run_.backward(this);
  if (carry_gradient_.data != nullptr) p_.taps->visit_gradient(p_, at_(sites_.carry), carry_gradient_);
}

void TappedStates::block_backward(std::size_t segment, std::int64_t head, std::int64_t lane,
                                  const StateRun::Parts& parts, float* scratch) const {
  const Segment& s = run_.segments()[segment];
  const StateShape& shape = run_.shape_;
  const int n = lanes_from(shape, lane, StateKernels::kBackwardLanes);
  const std::int64_t size = shape.rows * kBackRow;
  float *const drates = scratch, *const dstate = scratch + size, *const states = scratch + 2 * size;
  float* const other = scratch + size + StateKernels::backward_floats(1, shape.rows);
  float* const unused = other + size;  // gradients that nothing reads
  std::fill_n(scratch, 2 * size, 0.0f);
  const StateScan scan = run_.operands(s, head, lane);
  const StateScanGradients d = run_.gradients(s, head, lane, parts, drates);
  for (std::int64_t t = s.length; t-- > 0;) {
    const std::int64_t row = s.first_row + t;
    const StateScan token = scan.from(t, 1);
    StateScanGradients of_token = from_token(d, t);
    std::fill_n(states, size, 0.0f);
    if (t > 0) layout_.load(carried_.row(row - 1), head, lane, n, states, kBackRow);
    if (carry_gradient_.data != nullptr) layout_.store(dstate, kBackRow, head, lane, n, carry_gradient_.row(row));
    std::fill_n(other, size, 0.0f);
    if (carry_factor_.data != nullptr) {
      layout_.load(carry_factor_.row(row), head, lane, n, other, kBackRow);
      p_.kernels.multiply(dstate, other, size, dstate);
    }
    if (reads_apart_) {  // the gradient of the output is 0
      layout_.load(dstates_.row(row), head, lane, n, other, kBackRow);
      p_.kernels.add(dstate, other, size, dstate);
    } else if (dstates_.data != nullptr || dwrite_.data != nullptr) {
      for (std::int64_t i = 0; i < shape.rows; ++i) {
        p_.kernels.scale(of_token.out.of(0), n, token.queries.of(0)[i], other + i * kBackRow);
      }
      if (dstates_.data != nullptr) layout_.store(other, kBackRow, head, lane, n, dstates_.row(row));
      p_.kernels.add(dstate, other, size, other);
      if (dwrite_.data != nullptr) layout_.store(other, kBackRow, head, lane, n, dwrite_.row(row));
    }
    if (reads_apart_ && dwrite_.data != nullptr) layout_.store(dstate, kBackRow, head, lane, n, dwrite_.row(row));
    if (is_rewritten()) of_token.keys = of_token.values = {unused, 0};
    p_.kernels.states.backward(token, n, states, dstate, of_token);
  }
  run_.keep_rates(segment, lane, parts, drates);
}

}  // namespace vitrine
