#include "ops/state_scan.h"

#include <algorithm>
#include <memory>

#include "ops/describe.h"
#include "ops/state_bytes.h"
#include "ops/state_parts.h"
#include "ops/state_taps.h"

namespace vitrine {

std::int64_t state_interval(std::int64_t rows) {
  std::int64_t interval = 64;
  const auto fits = [&] {  // with the gradients of rates
    return StateKernels::backward_floats(interval, rows) + rows * StateKernels::kBackwardLanes <= kScratchFloats;
  };
  while (!fits()) interval /= 2;
  return interval;
}

namespace {

/// exp(g) of each row.
Tensor exponentials(Pass& p, const Tensor& logarithms) {
  const Tensor y = p.tensor(logarithms.shape);
  const std::int64_t n = y.row_size();
  p.for_rows(y.rows(), 8 * n, [&](std::int64_t t) { p.kernels.exp_sum(logarithms.row(t), n, 0.0f, y.row(t)); });
  return y;
}

/// The keys of each head, times the decays of its rows.
Tensor decayed(Pass& p, const StateShape& shape, const Tensor& keys, const Tensor& decays) {
  const Tensor y = p.tensor(decays.shape);
  const std::int64_t n = shape.rows;
  p.for_rows(y.rows(), y.row_size(), [&](std::int64_t t) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      p.kernels.multiply(keys.row(t) + shape.group_of(h) * n, decays.row(t) + h * n, n, y.row(t) + h * n);
    }
  });
  return y;
}

/// A `[K, P]` from the stored [P, K].
Tensor transposed_rates(Pass& p, const Rates& of, const StateShape& shape) {
  const Tensor y = p.tensor({shape.rows, shape.lanes});
  const ArenaScope scope(p.arena);
  const Tensor a = rates(p, of);
  p.for_rows(shape.rows, shape.lanes, [&](std::int64_t i) {
    for (std::int64_t l = 0; l < shape.lanes; ++l) y.row(i)[l] = a.data[l * shape.rows + i];
  });
  return y;
}

}  // namespace

StateRun::StateRun(Pass& p, BlockSite at, const StateShape& shape, const StateInputs& in, int number, bool keeps)
    : out(p.tensor({in.values.rows(), shape.heads, shape.lanes})),
      p_(p),
      at_(at),
      shape_(shape),
      in_(in),
      number_(number),
      interval_(state_interval(shape.rows)),
      factors_(shape.decay == StateDecay::element ? in.decays : exponentials(p, in.decays)) {
  if (shape.decay == StateDecay::row && in.betas.data != nullptr) decayed_keys_ = decayed(p, shape, in.keys, factors_);
  if (in.rates) rates_ = transposed_rates(p, *in.rates, shape);
  if (!p.is_taped() || !keeps) return;
  std::int64_t n = 0;
  for (const Segment& s : segments()) {
    first_kept_.push_back(n);
    n += std::max<std::int64_t>(0, (s.length - 1) / interval_);
  }
  kept_ = p.tensor({n, shape.heads, shape.rows, shape.lanes});
}

StateScan StateRun::operands(const Segment& s, std::int64_t head, std::int64_t lane) const {
  const std::int64_t row = s.first_row, group = shape_.group_of(head);
  const auto of = [&](const Tensor& x, std::int64_t element) {
    return x.data == nullptr ? TokenVectors{} : TokenVectors{x.row(row) + element, x.row_size()};
  };
  StateScan scan{s.length, shape_.rows, shape_.decay};
  scan.keys = of(in_.keys, group * shape_.rows);
  scan.queries = of(in_.queries, group * shape_.rows);
  scan.values = of(in_.values, head * shape_.lanes + lane);
  scan.betas = of(in_.betas, head);
  scan.decayed_keys = of(decayed_keys_, head * shape_.rows);
  const bool by_row = shape_.decay == StateDecay::row, by_element = shape_.decay == StateDecay::element;
  scan.decays = of(factors_, by_row ? head * shape_.rows : by_element ? lane : head);
  if (by_element) scan.rates = rates_.data + lane;
  scan.rates_stride = shape_.lanes;
  return scan;
}

void StateRun::scan_block(std::size_t segment, std::int64_t head, std::int64_t lane, float* state) const {
  constexpr std::int64_t kRow = StateKernels::kLanes;
  const Segment& s = segments()[segment];
  const int n = lanes_from(shape_, lane, StateKernels::kLanes);
  const std::int64_t offset = head * shape_.rows * shape_.lanes + lane;
  std::fill_n(state, shape_.rows * kRow, 0.0f);
  if (const float* const from = first_state(s)) {
    for (std::int64_t i = 0; i < shape_.rows; ++i) std::copy_n(from + offset + i * shape_.lanes, n, state + i * kRow);
  }
  const auto store = [&](float* to) {
    for (std::int64_t i = 0; i < shape_.rows; ++i) std::copy_n(state + i * kRow, n, to + i * shape_.lanes);
  };
  const StateScan scan = operands(s, head, lane);
  const std::int64_t step = p_.is_taped() ? interval_ : s.length;
  for (std::int64_t t = 0; t < s.length; t += step) {
    if (t > 0) store(kept(segment, t / interval_, head) + lane);
    float* const to = out.row(s.first_row + t) + head * shape_.lanes + lane;
    p_.kernels.states.scan(scan.from(t, std::min(step, s.length - t)), n, state, to, out.row_size());
  }
  if (s.cache != nullptr) store(s.cache->next_state<float>(at_.layer, number_).data() + offset);
}

void StateRun::forward() {
  const std::int64_t blocks = (shape_.lanes + StateKernels::kLanes - 1) / StateKernels::kLanes;
  const auto n_segments = static_cast<std::int64_t>(segments().size());
  if (!p_.shapes_only) {
    for (const Segment& s : segments()) {
      if (s.cache != nullptr) s.cache->next_state<float>(at_.layer, number_);  // takes memory, on this thread
    }
  }
  const std::int64_t cost = 4 * out.rows() / std::max<std::int64_t>(n_segments, 1) * shape_.rows * StateKernels::kLanes;
  p_.parallel_for(n_segments * shape_.heads * blocks, ExecutionContext::kOperationsPerThread / (cost + 1) + 1,
                  [&](std::int64_t begin, std::int64_t end, int thread) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      const std::int64_t head = i / blocks;
                      p_.check_interrupt();
                      scan_block(static_cast<std::size_t>(head / shape_.heads), head % shape_.heads,
                                 i % blocks * StateKernels::kLanes, p_.scratch(thread));
                    }
                  });
  if (!p_.shapes_only) keep_replays();
}

Tensor state_scan(Pass& p, BlockSite at, const StateShape& shape, const StateSites& sites, const StateInputs& in,
                  int number) {
  Tensor out;
  if (TappedStates::are_wanted(p, at, sites)) {
    out = std::make_shared<TappedStates>(p, at, shape, sites, in, number)->run();
  } else {
    const auto run = std::make_shared<StateRun>(p, at, shape, in, number);
    run->forward();
    out = run->out;
    std::vector<Tensor> read = {in.queries, in.keys, in.values, in.decays};
    if (in.betas.data != nullptr) read.push_back(in.betas);
    p.record(OpKind::state_scan, read, out, [run] { run->backward(); });
  }
  if (p.ledger != nullptr) {
    const auto products = static_cast<double>(in.values.rows() * shape.heads * shape.rows * shape.lanes);
    const double n = in.betas.data != nullptr ? 4 : 3;  // products and sums of an element
    const double state = state_bytes(p, at, shape.heads * shape.rows * shape.lanes);
    p.ledger->charge({.flops = 2 * n * products, .visible_flops = 2 * n * products, .kv_bytes = state});
    if (in.rates) p.ledger->reads(in.rates->stored);
  }
  return out;
}

constexpr OpDescription state_scan_op{"src/ops/state_scan.cpp",
                                      {"$y_{t} = S_{t}q_{t}, S_{t} = \"decay\"_{t} · S_{t−1} + k_{t}w_{t}"},
                                      {"Σ_{s ≥ t} d$y_{s} · {∂y_{s}}/{∂x_{t}}"}};

}  // namespace vitrine
