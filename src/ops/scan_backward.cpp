#include <algorithm>

#include "ops/scan.h"

namespace vitrine {

namespace {

constexpr std::int64_t kSteps = 8;  // that justify a transposed copy of W_hh, which the products of a step read faster

/// wᵀ as floats, `[cols, rows]`.
Tensor transposed_copy(Pass& p, const MatrixView& w) {
  constexpr std::int64_t kColumns = 16;
  const Tensor copy = p.tensor({w.cols, w.rows});
  p.for_rows((w.cols + kColumns - 1) / kColumns, kColumns * w.rows, [&](std::int64_t block) {
    const std::int64_t first = block * kColumns, n = std::min(kColumns, w.cols - first);
    float row[kColumns];
    for (std::int64_t i = 0; i < w.rows; ++i) {
      p.widen(w.col_range(first, n), i, n, row);
      for (std::int64_t j = 0; j < n; ++j) copy.row(first + j)[i] = row[j];
    }
  });
  return copy;
}

}  // namespace

/// The gradient of a value before the tap's changes, from that after them, which the taps receive.
void Scan::untap(std::size_t i, std::int64_t row, float* gradient) const {
  const TappedRows& t = taps_[i];
  if (t.gradient.data == nullptr) return;
  std::copy_n(gradient, d_, t.gradient.row(row));
  p_.kernels.multiply(gradient, t.factor.row(row), d_, gradient);
}

void Scan::backward() {
  const ArenaScope scope(p_.arena);
  const std::int64_t n = n_running(0), width = gates_.row_size();
  StepGradients d{p_.tensor({n, d_}), p_.tensor({n, d_}), p_.grad(gates_), p_.grad(gates_), p_.tensor({n, width})};
  const MatrixView& w = w_.state.weight.view;
  d.weight = transposed(w);
  if (n_steps_ >= kSteps) d.weight = view_of(transposed_copy(p_, w).data, w.cols, w.rows, w.rows);
  if (c_.kind == CellKind::gru) d.products = p_.filled(gates_.shape, 0.0f);
  if (attention_ != nullptr) d.contexts = p_.tensor({n, contexts_.row_size()});
  if (attention_ != nullptr) d.input_rows = p_.tensor({n, width});
  const Tensor dh = p_.grad(h), dlast = last_.h.data != nullptr ? p_.grad(last_.h) : Tensor{};
  const Tensor dlast_c = last_.c.data != nullptr && c_.has_c() ? p_.grad(last_.c) : Tensor{};
  const auto begin_with = [&](const Tensor& last, const Tensor& to) {
    p_.for_rows(n, d_, [&](std::int64_t i) {
      std::fill_n(to.row(i), d_, 0.0f);
      if (last.data != nullptr) std::copy_n(last.row(static_cast<std::int64_t>(lane(i).segment)), d_, to.row(i));
    });
  };
  begin_with(dlast, d.h);
  begin_with(dlast_c, d.c);
  for (std::int64_t s = n_steps_; s-- > 0;) step_backward(s, d, dh);
  const auto end_with = [&](const Tensor& first, const Tensor& from) {
    if (first.data == nullptr) return;
    const Tensor dfirst = p_.grad(first);
    p_.for_rows(n, d_, [&](std::int64_t i) {
      float* const to = dfirst.row(static_cast<std::int64_t>(lane(i).segment));
      p_.kernels.add(to, from.row(i), d_, to);
    });
  };
  end_with(first_.h, d.h);
  if (c_.has_c()) end_with(first_.c, d.c);
  finish_backward(d);
}

void Scan::step_backward(std::int64_t step, const StepGradients& d, const Tensor& dh) {
  const ArenaScope scope(p_.arena);
  const std::int64_t n = n_running(step), width = gates_.row_size();
  const Tensor scratch = p_.tensor({n, 2 * d_});
  p_.for_rows(n, 16 * width, [&](std::int64_t i) {
    const std::int64_t row = row_of(lane(i), step);
    float* const dstate = d.h.row(i);
    p_.kernels.add(dstate, dh.row(row), d_, dstate);
    row_backward(i, step, d, dstate, scratch.row(i));
    std::copy_n(d.products.row(row), width, d.rows.row(i));
    if (attention_ != nullptr) std::copy_n(d.gates.row(row), width, d.input_rows.row(i));
  });
  // The gradients of the states before the step. Those of a GRU keep what z' passes on.
  const Into into = c_.kind == CellKind::gru ? Into::add : Into::set;
  multiply(p_, view_of(d.rows.data, n, width, width), d.weight, d.h.data, d_, into);
  if (attention_ == nullptr) return;
  const MatrixView& w = w_.input.weight.view;
  const std::int64_t m = contexts_.row_size();
  multiply(p_, view_of(d.input_rows.data, n, width, width), transposed(w.col_range(w.cols - m, m)), d.contexts.data, m);
  attention_->read_backward(rows_at(step, n), d.contexts, d.h);
}

/// Sets the gradients of z and u of one row from dh, that of its state.
void Scan::row_backward(std::int64_t i, std::int64_t step, const StepGradients& d, float* dh, float* scratch) const {
  const std::int64_t row = row_of(lane(i), step);
  untap(taps_.size() - 1, row, dh);
  if (c_.kind == CellKind::lstm) return lstm_row_backward(i, step, d, dh, scratch);
  if (c_.kind == CellKind::gru) return gru_row_backward(i, step, d, dh, scratch);
  const float* const a = gates_.row(row);
  float* const dz = d.gates.row(row);
  for (std::int64_t j = 0; j < d_; ++j) {
    dz[j] = c_.kind == CellKind::rnn_relu ? (a[j] > 0 ? dh[j] : 0.0f) : (1.0f - a[j] * a[j]) * dh[j];
  }
}

void Scan::lstm_row_backward(std::int64_t i, std::int64_t step, const StepGradients& d, const float* dh,
                             float* t) const {
  const std::int64_t row = row_of(lane(i), step);
  float* const dz = d.gates.row(row);
  float *const di = dz, *const df = dz + d_, *const dg = dz + 2 * d_, *const dout = dz + 3 * d_, *const dc = d.c.row(i);
  const float *const in = used(row, kI), *const forget = used(row, kF), *const fresh = used(row, kG),
                     *const out = used(row, kO);
  p_.kernels.activate(Activation::tanh, cells_.row(row), d_, t);
  for (std::int64_t j = 0; j < d_; ++j) {
    dout[j] = dh[j] * t[j];
    dc[j] += dh[j] * out[j] * (1.0f - t[j] * t[j]);
  }
  untap(kC, row, dc);
  const float* const previous = before(cells_, first_.c, lane(i), step);
  for (std::int64_t j = 0; j < d_; ++j) {
    di[j] = dc[j] * fresh[j];
    dg[j] = dc[j] * in[j];
    df[j] = previous != nullptr ? dc[j] * previous[j] : 0.0f;
    dc[j] *= forget[j];
  }
  untap(kI, row, di);
  untap(kF, row, df);
  untap(kG, row, dg);
  untap(kO, row, dout);
  const float *const a = gate(row, kI), *const b = gate(row, kG), *const e = gate(row, kO);
  for (std::int64_t j = 0; j < 2 * d_; ++j) dz[j] *= a[j] * (1.0f - a[j]);
  for (std::int64_t j = 0; j < d_; ++j) {
    dg[j] *= 1.0f - b[j] * b[j];
    dout[j] *= e[j] * (1.0f - e[j]);
  }
}

void Scan::gru_row_backward(std::int64_t i, std::int64_t step, const StepGradients& d, float* dh, float* t) const {
  const std::int64_t row = row_of(lane(i), step);
  float *const dr = t, *const dz = t + d_, *const dn = d.gates.row(row) + 2 * d_, *const du = d.products.row(row);
  const float *const reset = used(row, kR), *const update = used(row, kZ), *const fresh = used(row, kN);
  const float *const previous = before(h, first_.h, lane(i), step), *const state = state_.row(row);
  for (std::int64_t j = 0; j < d_; ++j) {
    dz[j] = dh[j] * ((previous != nullptr ? previous[j] : 0.0f) - fresh[j]);
    dn[j] = dh[j] * (1.0f - update[j]);
    dh[j] *= update[j];
  }
  untap(kN, row, dn);
  untap(kZ, row, dz);
  const float *const r = gate(row, kR), *const z = gate(row, kZ), *const n = gate(row, kN);
  for (std::int64_t j = 0; j < d_; ++j) {
    dn[j] *= 1.0f - n[j] * n[j];
    dr[j] = dn[j] * state[j];
    du[2 * d_ + j] = dn[j] * reset[j];
  }
  untap(kR, row, dr);
  float* const dgates = d.gates.row(row);
  for (std::int64_t j = 0; j < d_; ++j) {
    dgates[j] = du[j] = dr[j] * r[j] * (1.0f - r[j]);
    dgates[d_ + j] = du[d_ + j] = dz[j] * z[j] * (1.0f - z[j]);
  }
}

/// The gradients of the parameters, from those of all rows.
void Scan::finish_backward(const StepGradients& d) {
  for (const TappedRows& t : taps_) {
    if (t.gradient.data != nullptr && p_.taps->wants_gradient(t.site)) {
      p_.taps->visit_gradient(p_, t.site, t.gradient);
    }
  }
  const Tensor states = p_.filled(h.shape, 0.0f);  // before each row
  p_.for_rows(static_cast<std::int64_t>(lanes_.size()), d_ * n_steps_, [&](std::int64_t i) {
    for (std::int64_t s = 0; s < lane(i).length; ++s) {
      copy_before(h, first_.h, lane(i), s, states.row(row_of(lane(i), s)));
    }
  });
  add_weight_gradient(p_, states, d.products, w_.state.weight);
  if (w_.state.bias.present()) add_bias_gradient(p_, d.products, w_.state.bias);
  if (attention_ == nullptr) return;
  add_weight_gradient(p_, contexts_, d.gates, w_.input.weight, w_.input.weight.view.cols - contexts_.row_size());
  attention_->finish_backward(states);
}

}  // namespace vitrine
