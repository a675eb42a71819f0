#include "ops/recurrent.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ops/op_kind.h"
#include "ops/recurrent_sites.h"
#include "ops/scan.h"

namespace vitrine {
namespace {

/// The gates in the order of their rows in W, then c, then h.
std::vector<Site> sites_of(CellKind kind, Direction direction) {
  using enum CellSite;
  std::vector<CellSite> names = {cell_h};
  if (kind == CellKind::gru) names = {cell_r, cell_z, cell_n, cell_h};
  if (kind == CellKind::lstm) names = {cell_i, cell_f, cell_g, cell_o, cell_c, cell_h};
  constexpr std::size_t kToReverse = static_cast<std::size_t>(reverse_i) - static_cast<std::size_t>(cell_i);
  std::vector<Site> sites;
  for (const CellSite name : names) {
    const std::size_t reverse = direction == Direction::reverse ? kToReverse : 0;
    sites.emplace_back(kCellSiteTable, static_cast<std::size_t>(name) + reverse);
  }
  return sites;
}

/// The order of lanes: longest first, equal ones as in the pass.
std::vector<Lane> lanes_of(const std::vector<Segment>& segments) {
  std::vector<Lane> lanes;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    lanes.push_back({i, segments[i].first_row, segments[i].length - segments[i].n_padding});
  }
  std::stable_sort(lanes.begin(), lanes.end(), [](const Lane& a, const Lane& b) { return a.length > b.length; });
  return lanes;
}

}  // namespace

Scan::Scan(Pass& p, BlockSite at, Direction direction, const CellConfig& c, const CellParams& w, const Tensor& inputs,
           const CellStates& first, const CellStates& last, std::shared_ptr<AdditiveAttention> attention)
    : h(p.filled({inputs.rows(), c.d_hidden}, 0.0f)),  // rows of padding stay 0
      p_(p),
      direction_(direction),
      c_(c),
      w_(w),
      d_(c.d_hidden),
      gates_(inputs),
      first_(first),
      last_(last),
      attention_(std::move(attention)),
      lanes_(lanes_of(p.segments_of(at.stack))) {
  const Shape shape = h.shape;
  n_steps_ = lanes_.front().length;
  if (w.state.bias.present()) bias_ = p.vector(w.state.bias);
  if (c.has_c()) cells_ = p.tensor(shape);
  if (c.kind == CellKind::gru) state_ = p.tensor(shape);
  if (attention_ != nullptr) contexts_ = p.filled({shape[0], attention_->d_values()}, 0.0f);
  for (const Site site : sites_of(c.kind, direction)) {
    TappedRows rows{at(site)};
    if (p.wants(rows.site)) {
      is_tapped_ = true;
      rows.values = p.filled(shape, 0.0f);
      if (p.is_taped()) rows.factor = p.filled(shape, 1.0f);
      if (p.is_taped()) rows.gradient = p.filled(shape, 0.0f);
    }
    taps_.push_back(rows);
  }
}

void Scan::copy_before(const Tensor& values, const Tensor& first, const Lane& lane, std::int64_t step,
                       float* to) const {
  if (const float* const from = before(values, first, lane, step)) {
    std::copy_n(from, d_, to);
  } else {
    std::fill_n(to, d_, 0.0f);
  }
}

std::vector<AdditiveAttention::Row> Scan::rows_at(std::int64_t step, std::int64_t n) const {
  std::vector<AdditiveAttention::Row> rows;
  for (std::int64_t i = 0; i < n; ++i) rows.push_back({lane(i).segment, row_of(lane(i), step)});
  return rows;
}

/// Passes a row to the taps. Their changes are copied to `values`, if it is the value that is used.
void Scan::tap(std::size_t i, std::int64_t row, float* values, bool in_place) {
  const TappedRows& t = taps_[i];
  if (t.values.data == nullptr) return;
  std::copy_n(values, d_, t.values.row(row));
  p_.tap_step(t.site, t.values, row * d_, d_, t.factor);
  if (in_place) std::copy_n(t.values.row(row), d_, values);
}

void Scan::run() {
  for (std::int64_t s = 0; s < n_steps_; ++s) step(s);
  for (const Lane& lane : lanes_) {
    const auto segment = static_cast<std::int64_t>(lane.segment);
    const std::int64_t row = row_of(lane, lane.length - 1);
    if (last_.h.data != nullptr) p_.copy(h.row(row), d_, last_.h.row(segment));
    if (last_.c.data != nullptr && c_.has_c()) p_.copy(cells_.row(row), d_, last_.c.row(segment));
  }
  if (attention_ != nullptr) attention_->finish();
  for (const TappedRows& t : taps_) {
    if (t.values.data != nullptr) p_.tap_steps(t.site, t.values);
  }
}

void Scan::step(std::int64_t step) {
  const ArenaScope scope(p_.arena);
  const std::int64_t n = n_running(step), width = gates_.row_size();
  const Tensor states = p_.tensor({n, d_}), products = p_.tensor({n, width});
  p_.for_rows(n, d_, [&](std::int64_t i) { copy_before(h, first_.h, lane(i), step, states.row(i)); });
  if (attention_ != nullptr) add_context(step, n, states);
  multiply(p_, view_of(states.data, n, d_, d_), w_.state.weight.view, products.data, width);
  const auto body = [&](std::int64_t i) {
    if (bias_ != nullptr) p_.kernels.add(products.row(i), bias_, width, products.row(i));
    step_row(lane(i), step, products.row(i));
  };
  if (is_tapped_ && !p_.shapes_only) {  // taps are called on this thread
    for (std::int64_t i = 0; i < n; ++i) body(i);
  } else {
    p_.for_rows(n, 12 * width, body);
  }
}

/// z += W_ih's columns of the context · context.
void Scan::add_context(std::int64_t step, std::int64_t n, const Tensor& states) {
  const std::int64_t m = contexts_.row_size(), width = gates_.row_size();
  const Tensor contexts = p_.tensor({n, m}), inputs = p_.tensor({n, width});
  attention_->read(rows_at(step, n), states, contexts);
  const MatrixView& w = w_.input.weight.view;
  multiply(p_, view_of(contexts.data, n, m, m), w.col_range(w.cols - m, m), inputs.data, width);
  p_.for_rows(n, width, [&](std::int64_t i) {
    float* const z = gates_.row(row_of(lane(i), step));
    p_.kernels.add(z, inputs.row(i), width, z);
    std::copy_n(contexts.row(i), m, contexts_.row(row_of(lane(i), step)));
  });
}

void Scan::step_row(const Lane& lane, std::int64_t step, const float* products) {
  const std::int64_t row = row_of(lane, step);
  float* const z = gates_.row(row);
  if (c_.kind == CellKind::gru) {
    gru_row(lane, step, row, products);
  } else {
    p_.kernels.add(z, products, gates_.row_size(), z);
    if (c_.kind == CellKind::lstm) {
      lstm_row(lane, step, row);
    } else {
      const bool is_relu = c_.kind == CellKind::rnn_relu;
      p_.kernels.activate(is_relu ? Activation::relu : Activation::tanh, z, d_, z);
      std::copy_n(z, d_, h.row(row));
    }
  }
  tap(taps_.size() - 1, row, h.row(row), true);
}

void Scan::lstm_row(const Lane& lane, std::int64_t step, std::int64_t row) {
  float *const z = gates_.row(row), *const c = cells_.row(row), *const out = h.row(row);
  p_.kernels.sigmoid(z, 2 * d_, z);
  p_.kernels.activate(Activation::tanh, gate(row, kG), d_, gate(row, kG));
  p_.kernels.sigmoid(gate(row, kO), d_, gate(row, kO));
  for (const std::size_t i : {kI, kF, kG, kO}) tap_gate(i, row);
  if (const float* const previous = before(cells_, first_.c, lane, step)) {
    p_.kernels.multiply(used(row, kF), previous, d_, c);
  } else {
    std::fill_n(c, d_, 0.0f);
  }
  p_.kernels.multiply_add(used(row, kI), used(row, kG), d_, c);
  tap(kC, row, c, true);
  p_.kernels.activate(Activation::tanh, c, d_, out);
  p_.kernels.multiply(out, used(row, kO), d_, out);
}

void Scan::gru_row(const Lane& lane, std::int64_t step, std::int64_t row, const float* products) {
  float *const z = gates_.row(row), *const n = gate(row, kN), *const out = h.row(row);
  p_.kernels.add(z, products, 2 * d_, z);
  p_.kernels.sigmoid(z, 2 * d_, z);
  tap_gate(kR, row);
  tap_gate(kZ, row);
  std::copy_n(products + 2 * d_, d_, state_.row(row));
  p_.kernels.multiply_add(used(row, kR), state_.row(row), d_, n);
  p_.kernels.activate(Activation::tanh, n, d_, n);
  tap_gate(kN, row);
  const float *const update = used(row, kZ), *const fresh = used(row, kN);
  const float* const previous = before(h, first_.h, lane, step);
  for (std::int64_t j = 0; j < d_; ++j) {
    const float old = previous != nullptr ? previous[j] : 0.0f;
    out[j] = (1.0f - update[j]) * fresh[j] + update[j] * old;
  }
}

Tensor scan(Pass& p, BlockSite at, Direction direction, const CellConfig& c, const CellParams& w, const Tensor& inputs,
            const CellStates& first, const CellStates& last, std::shared_ptr<AdditiveAttention> attention) {
  Scan scan(p, at, direction, c, w, inputs, first, last, std::move(attention));
  scan.run();
  std::vector<Tensor> read = {inputs};
  for (const Tensor& state : {first.h, first.c}) {
    if (state.data != nullptr) read.push_back(state);
  }
  p.record(OpKind::scan, read, scan.h, [scan]() mutable { scan.backward(); });
  if (p.ledger != nullptr) {
    p.ledger->multiplies(w.state.weight, inputs.rows(), w.state.weight.view.cols);
    if (w.state.bias.present()) p.ledger->reads(w.state.bias);
  }
  return scan.h;
}

}  // namespace vitrine
