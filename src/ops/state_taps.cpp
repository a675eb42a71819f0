#include "ops/state_taps.h"

#include <algorithm>
#include <cstring>

#include "ops/op_kind.h"

namespace vitrine {
namespace {

constexpr std::int64_t kStateRow = StateKernels::kLanes;
constexpr float kNoDecay = 1.0f;

std::int64_t number_of_rows(const std::optional<WantedRows>& rows, std::int64_t all) {
  return rows ? rows->end - rows->first : all;
}

bool same_bits_of(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

Shape StateLayout::shape(std::int64_t tokens) const {
  const std::int64_t outer = lanes_first ? lanes : rows, inner = lanes_first ? rows : lanes;
  return has_heads ? Shape{tokens, heads, outer, inner} : Shape{tokens, outer, inner};
}

/// Calls visit(index in the token's elements, index in the rows) for every element, in the order of the value.
template <class Visit>
void StateLayout::each(std::int64_t head, std::int64_t lane, int n, std::int64_t stride, Visit&& visit) const {
  const std::int64_t first = head * rows * lanes;
  if (lanes_first) {
    for (std::int64_t l = 0; l < n; ++l) {
      for (std::int64_t i = 0; i < rows; ++i) visit(first + (lane + l) * rows + i, i * stride + l);
    }
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t l = 0; l < n; ++l) visit(first + i * lanes + lane + l, i * stride + l);
  }
}

void StateLayout::load(const float* token, std::int64_t head, std::int64_t lane, int n, float* to,
                       std::int64_t stride) const {
  each(head, lane, n, stride, [=](std::int64_t at, std::int64_t i) { to[i] = token[at]; });
}

void StateLayout::store(const float* from, std::int64_t stride, std::int64_t head, std::int64_t lane, int n,
                        float* token) const {
  each(head, lane, n, stride, [=](std::int64_t at, std::int64_t i) { token[at] = from[i]; });
}

bool TappedStates::are_wanted(const Pass& p, BlockSite at, const StateSites& sites) {
  return p.wants(at(sites.state)) || p.wants(at(sites.carry)) || (sites.write && p.wants(at(*sites.write)));
}

TappedStates::TappedStates(Pass& p, BlockSite at, const StateShape& shape, const StateSites& sites,
                           const StateInputs& in, int number)
    : p_(p),
      at_(at),
      sites_(sites),
      run_(p, at, shape, in, number, false),
      layout_{shape.heads, shape.rows, shape.lanes, sites.lanes_first, shape.decay != StateDecay::element},
      rows_of_states_(p.wanted_rows(at(sites.state))),
      rows_of_carry_(p.wanted_rows(at(sites.carry))),
      steps_carry_(p.wants(at(sites.carry)) && !rows_of_carry_) {}

/// What the scan reads, besides the queries.
std::vector<Tensor> TappedStates::scanned() const {
  std::vector<Tensor> inputs = {run_.in_.keys, run_.in_.values, run_.in_.decays};
  if (run_.in_.betas.data != nullptr) inputs.push_back(run_.in_.betas);
  if (is_rewritten()) inputs.push_back(written_);
  return inputs;
}

Tensor TappedStates::run() {
  if (sites_.write && p_.wants(at_(*sites_.write))) tap_write();
  if (p_.wants(at_(sites_.state)) || (p_.is_taped() && is_rewritten())) {
    states_ = p_.tensor(layout_.shape(number_of_rows(rows_of_states_, run_.out.rows())));
  }
  scan();
  tap_states();
  std::vector<Tensor> inputs = {run_.in_.queries};
  if (reads_apart_) {
    inputs.push_back(read_);
  } else {
    const std::vector<Tensor> others = scanned();
    inputs.insert(inputs.end(), others.begin(), others.end());
  }
  p_.record(OpKind::state_scan, inputs, run_.out,
            [self = shared_from_this()] { self->reads_apart_ ? self->read_backward() : self->scan_backward(); });
  return run_.out;
}

/// k wᵀ of rows of the pass.
Tensor TappedStates::writes_of(WantedRows rows) const {
  const StateShape& s = run_.shape_;
  const Tensor write = p_.tensor(layout_.shape(rows.end - rows.first));
  p_.for_rows(write.rows(), layout_.size(), [&](std::int64_t i) {
    const std::int64_t t = rows.first + i;
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const float* const key = run_.in_.keys.row(t) + s.group_of(h) * s.rows;
      for (std::int64_t l = 0; l < s.lanes; ++l) {
        const float value = run_.in_.values.row(t)[h * s.lanes + l];
        float* const to = write.row(i) + (h * s.lanes + l) * s.rows;
        p_.kernels.scale(key, s.rows, value, to);
      }
    }
  });
  return write;
}

void TappedStates::tap_write() {
  const SiteId site = at_(*sites_.write);
  if (const std::optional<WantedRows> rows = p_.wanted_rows(site))
    return p_.taps->visit_rows(p_, site, writes_of(*rows));
  write_ = writes_of({0, run_.out.rows()});
  p_.record(OpKind::state_write, {run_.in_.keys, run_.in_.values}, write_, [self = shared_from_this()] {
    if (self->is_rewritten()) self->write_backward();
  });
  written_ = p_.tap(site, write_);
}

void TappedStates::scan() {
  const Shape shape = layout_.shape(number_of_rows(rows_of_carry_, run_.out.rows()));
  if (rows_of_carry_ || steps_carry_ || p_.is_taped()) carried_ = p_.filled(shape, 0.0f);
  if (steps_carry_ && p_.is_taped()) {
    carry_factor_ = p_.filled(shape, 1.0f);
    if (p_.taps->wants_gradient(at_(sites_.carry))) carry_gradient_ = p_.tensor(shape);
  }
  for (const Segment& s : run_.segments()) scan_segment(s);
  if (rows_of_carry_) p_.taps->visit_rows(p_, at_(sites_.carry), carried_);
  if (steps_carry_) p_.tap_steps(at_(sites_.carry), carried_);
}

void TappedStates::scan_segment(const Segment& s) {
  const ArenaScope scope(p_.arena);
  const StateShape& shape = run_.shape_;
  const Tensor current = p_.filled({shape.heads, shape.rows, shape.lanes}, 0.0f);
  if (p_.shapes_only) return;
  if (const float* const from = run_.first_state(s)) std::copy_n(from, current.count(), current.data);
  const std::int64_t blocks = (shape.lanes + kStateRow - 1) / kStateRow;
  const std::int64_t grain = ExecutionContext::kOperationsPerThread / (8 * shape.rows * kStateRow) + 1;
  for (std::int64_t t = 0; t < s.length; ++t) {
    p_.parallel_for(shape.heads * blocks, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t i = begin; i < end; ++i) {
        scan_token(s, t, i / blocks, i % blocks * kStateRow, current, p_.scratch(thread));
      }
    });
    if (!steps_carry_) continue;
    const std::int64_t row = s.first_row + t;
    p_.tap_step(at_(sites_.carry), carried_, row * layout_.size(), layout_.size(), carry_factor_);
    p_.for_rows(shape.heads, 2 * shape.rows * shape.lanes, [&](std::int64_t head) {
      layout_.load(carried_.row(row), head, 0, static_cast<int>(shape.lanes), current.row(head), shape.lanes);
    });
  }
  if (s.cache == nullptr) return;
  std::copy_n(current.data, current.count(), s.cache->next_state<float>(at_.layer, run_.number_).data());
}

/// One token of a block of lanes of a head. `current`: the state `[H, K, P]` before it, then after it.
void TappedStates::scan_token(const Segment& s, std::int64_t t, std::int64_t head, std::int64_t lane,
                              const Tensor& current, float* scratch) const {
  const StateShape& shape = run_.shape_;
  const int n = lanes_from(shape, lane, StateKernels::kLanes);
  const std::int64_t row = s.first_row + t, size = shape.rows * kStateRow;
  float *const state = scratch, *const decayed = state + size, *const written = decayed + size;
  float* const zeros = written + size;
  std::fill_n(scratch, is_rewritten() ? 4 * size : size, 0.0f);
  float* const own = current.row(head) + lane;
  for (std::int64_t i = 0; i < shape.rows; ++i) std::copy_n(own + i * shape.lanes, n, state + i * kStateRow);
  const StateScan scan = run_.operands(s, head, lane).from(t, 1);
  float* const to = run_.out.row(row) + head * shape.lanes + lane;
  bool is_changed = false;
  if (is_rewritten()) {
    layout_.load(write_.row(row), head, lane, n, decayed, kStateRow);
    layout_.load(written_.row(row), head, lane, n, written, kStateRow);
    is_changed = std::memcmp(decayed, written, static_cast<std::size_t>(size) * sizeof(float)) != 0;
  }
  if (is_changed) {  // an element that is written as before remains a multiply-add
    StateScan without = scan;
    without.values = {zeros, 0};
    std::copy_n(state, size, decayed);
    p_.kernels.states.scan(without, n, decayed, to, 0);
  }
  p_.kernels.states.scan(scan, n, state, to, 0);
  for (std::int64_t i = 0; i < size && is_changed; ++i) {
    const std::int64_t in_row = i / kStateRow, l = i % kStateRow;
    if (l >= n) continue;
    const float before = scan.keys.of(0)[in_row] * scan.values.of(0)[l];
    if (!same_bits_of(before, written[i])) state[i] = decayed[i] + written[i];
  }
  for (std::int64_t i = 0; i < shape.rows; ++i) std::copy_n(state + i * kStateRow, n, own + i * shape.lanes);
  keep(states_, rows_of_states_, row, state, head, lane, n);
  keep(carried_, rows_of_carry_, row, state, head, lane, n);
  if (is_changed) read(scan.queries.of(0), n, state, zeros, to);
}

/// Copies a block of lanes to a row of a value that has all rows of the pass, or `rows`.
void TappedStates::keep(const Tensor& value, const std::optional<WantedRows>& rows, std::int64_t row,
                        const float* state, std::int64_t head, std::int64_t lane, int n) const {
  if (value.data == nullptr || (rows && (row < rows->first || row >= rows->end))) return;
  layout_.store(state, kStateRow, head, lane, n, value.row(rows ? row - rows->first : row));
}

/// to = stateᵀ query. The elements of the state stay what they are, but for the sign of a zero.
void TappedStates::read(const float* query, int n, float* state, const float* zeros, float* to) const {
  StateScan scan{1, run_.shape_.rows, StateDecay::head};
  scan.keys = {zeros, 0};
  scan.queries = {query, 0};
  scan.decays = {&kNoDecay, 0};
  scan.values = {zeros, 0};
  p_.kernels.states.scan(scan, n, state, to, 0);
}

/// Shows the states, and computes the outputs of those that a tap has changed.
void TappedStates::tap_states() {
  if (states_.data == nullptr) return;
  if (rows_of_states_) return p_.taps->visit_rows(p_, at_(sites_.state), states_);
  p_.record(OpKind::states, scanned(), states_, [self = shared_from_this()] {
    if (self->reads_apart_) self->scan_backward();
  });
  read_ = p_.wants(at_(sites_.state)) ? p_.tap(at_(sites_.state), states_) : states_;
  reads_apart_ = is_rewritten() || read_.data != states_.data;
  if (read_.data != states_.data) read_again();
}

void TappedStates::read_again() const {
  const StateShape& shape = run_.shape_;
  const std::int64_t size = shape.rows * shape.lanes;
  p_.parallel_for(run_.out.rows() * shape.heads, ExecutionContext::kOperationsPerThread / (4 * size + 1) + 1,
                  [&](std::int64_t begin, std::int64_t end, int thread) {
                    float *const state = p_.scratch(thread), *const zeros = state + shape.rows * kStateRow;
                    std::fill_n(zeros, shape.rows * kStateRow, 0.0f);
                    for (std::int64_t i = begin; i < end; ++i) {
                      const std::int64_t t = i / shape.heads, head = i % shape.heads;
                      const float *const before = states_.data + i * size, *const after = read_.data + i * size;
                      if (std::memcmp(before, after, static_cast<std::size_t>(size) * sizeof(float)) == 0) continue;
                      const float* const query = run_.in_.queries.row(t) + shape.group_of(head) * shape.rows;
                      for (std::int64_t lane = 0; lane < shape.lanes; lane += kStateRow) {
                        const int n = lanes_from(shape, lane, StateKernels::kLanes);
                        std::fill_n(state, shape.rows * kStateRow, 0.0f);
                        layout_.load(read_.row(t), head, lane, n, state, kStateRow);
                        read(query, n, state, zeros, run_.out.row(t) + head * shape.lanes + lane);
                      }
                    }
                  });
}

}  // namespace vitrine
