#include <algorithm>

#include "ops/state_parts.h"
#include "ops/state_taps.h"

namespace vitrine {
namespace {

constexpr int kLanesBack = StateKernels::kBackwardLanes;

}  // namespace

StateScanGradients StateRun::gradients(const Segment& s, std::int64_t head, std::int64_t lane, const Parts& parts,
                                       float* rates) const {
  const std::int64_t part = shape_.heads > 1 ? head : lane / kLanesBack;
  const auto of_part = [&](const Tensor& x) {
    return x.data == nullptr ? TokenGradients{}
                             : TokenGradients{x.row(s.first_row) + part * x.shape.count_from(2), x.row_size()};
  };
  const auto of_lanes = [&](const Tensor& x) {
    return TokenGradients{x.row(s.first_row) + head * shape_.lanes + lane, x.row_size()};
  };
  StateScanGradients d;
  d.out = {parts.out.row(s.first_row) + head * shape_.lanes + lane, parts.out.row_size()};
  d.keys = of_part(parts.keys);
  d.queries = of_part(parts.queries);
  d.betas = of_part(parts.betas);
  d.values = of_lanes(p_.grad(in_.values));
  d.decays = shape_.decay == StateDecay::element ? of_lanes(p_.grad(in_.decays)) : of_part(parts.decays);
  d.rates = rates;
  return d;
}

void StateRun::block_backward(std::size_t segment, std::int64_t head, std::int64_t lane, const Parts& parts,
                              float* scratch) const {
  const Segment& s = segments()[segment];
  const int n = lanes_from(shape_, lane, kLanesBack);
  const std::int64_t size = shape_.rows * kLanesBack;
  float *const drates = scratch, *const dstate = scratch + size, *const states = scratch + 2 * size;
  std::fill_n(scratch, 2 * size, 0.0f);
  const StateScan scan = operands(s, head, lane);
  const StateScanGradients d = gradients(s, head, lane, parts, drates);
  for (std::int64_t number = (s.length - 1) / interval_; number >= 0; --number) {
    const std::int64_t t = number * interval_;
    std::fill_n(states, size, 0.0f);
    for (std::int64_t i = 0; i < shape_.rows && number > 0; ++i) {
      std::copy_n(kept(segment, number, head) + i * shape_.lanes + lane, n, states + i * kLanesBack);
    }
    p_.kernels.states.backward(scan.from(t, std::min(interval_, s.length - t)), n, states, dstate, from_token(d, t));
  }
  keep_rates(segment, lane, parts, drates);
}

/// The gradients of rates that a block of lanes has added up.
void StateRun::keep_rates(std::size_t segment, std::int64_t lane, const Parts& parts, const float* drates) const {
  if (parts.rates.data == nullptr) return;
  const std::int64_t blocks = parts.rates.shape[1], size = shape_.rows * kLanesBack;
  std::copy_n(drates, size,
              parts.rates.data + (static_cast<std::int64_t>(segment) * blocks + lane / kLanesBack) * size);
}

/// Adds the parts' gradients to those of the operands.
void StateRun::gather(const Parts& parts) {
  const std::int64_t k = shape_.rows;
  const Tensor dqueries = p_.grad(in_.queries), dkeys = p_.grad(in_.keys);
  p_.for_rows(out.rows(), 2 * parts.n * k, [&](std::int64_t t) {
    for (std::int64_t i = 0; i < parts.n; ++i) {
      const std::int64_t to = (shape_.heads > 1 ? shape_.group_of(i) : 0) * k;
      p_.kernels.add(dqueries.row(t) + to, parts.queries.row(t) + i * k, k, dqueries.row(t) + to);
      p_.kernels.add(dkeys.row(t) + to, parts.keys.row(t) + i * k, k, dkeys.row(t) + to);
    }
  });
  const std::int64_t per_head = parts.n / shape_.heads;
  if (parts.betas.data != nullptr) {
    const Tensor dbetas = p_.grad(in_.betas);
    p_.for_rows(out.rows(), parts.n, [&](std::int64_t t) {
      for (std::int64_t i = 0; i < parts.n; ++i) dbetas.row(t)[i / per_head] += parts.betas.row(t)[i];
    });
  }
  if (parts.decays.data != nullptr) {  // d log decay = decay · d decay
    const Tensor ddecays = p_.grad(in_.decays);
    const std::int64_t n = parts.decays.shape[2];
    p_.for_rows(out.rows(), 2 * parts.n * n, [&](std::int64_t t) {
      for (std::int64_t i = 0; i < parts.n; ++i) {
        const std::int64_t to = i / per_head * n;
        p_.kernels.multiply_add(factors_.row(t) + to, parts.decays.row(t) + i * n, n, ddecays.row(t) + to);
      }
    });
  }
  if (parts.rates.data == nullptr) return;
  const Tensor dA = p_.filled({shape_.lanes * k}, 0.0f);
  p_.for_rows(shape_.lanes, k * parts.rates.rows(), [&](std::int64_t l) {
    for (std::int64_t segment = 0; segment < parts.rates.rows(); ++segment) {
      const float* const from = parts.rates.row(segment) + l / kLanesBack * k * kLanesBack + l % kLanesBack;
      for (std::int64_t i = 0; i < k; ++i) dA.data[l * k + i] += from[i * kLanesBack];
    }
  });
  add_rate_gradient(p_, *in_.rates, dA);
}

void StateRun::backward(const TappedStates* taps) {
  const ArenaScope scope(p_.arena);
  const std::int64_t blocks = (shape_.lanes + kLanesBack - 1) / kLanesBack, t = out.rows();
  const auto n_segments = static_cast<std::int64_t>(segments().size());
  Parts parts{shape_.heads > 1 ? shape_.heads : blocks};
  parts.out = taps != nullptr && taps->reads_apart() ? p_.filled(out.shape, 0.0f) : p_.grad(out);
  parts.queries = p_.filled({t, parts.n, shape_.rows}, 0.0f);
  parts.keys = p_.filled({t, parts.n, shape_.rows}, 0.0f);
  if (in_.betas.data != nullptr) parts.betas = p_.filled({t, parts.n, 1}, 0.0f);
  if (shape_.decay == StateDecay::head) parts.decays = p_.filled({t, parts.n, 1}, 0.0f);
  if (shape_.decay == StateDecay::row) parts.decays = p_.filled({t, parts.n, shape_.rows}, 0.0f);
  if (in_.rates) parts.rates = p_.tensor({n_segments, blocks, shape_.rows, kLanesBack});
  for (const Tensor& x : {in_.values, in_.decays}) p_.grad(x);  // allocated on this thread
  const std::int64_t cost = 16 * t / std::max<std::int64_t>(n_segments, 1) * shape_.rows * kLanesBack;
  p_.parallel_for(n_segments * parts.n, ExecutionContext::kOperationsPerThread / (cost + 1) + 1,
                  [&](std::int64_t begin, std::int64_t end, int thread) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      p_.check_interrupt();
                      const auto segment = static_cast<std::size_t>(i / parts.n);
                      const bool by_head = shape_.heads > 1;
                      const std::int64_t first = by_head ? 0 : i % parts.n, n = by_head ? blocks : 1;
                      for (std::int64_t b = first; b < first + n; ++b) {
                        const std::int64_t head = by_head ? i % parts.n : 0, lane = b * kLanesBack;
                        if (taps != nullptr) {
                          taps->block_backward(segment, head, lane, parts, p_.scratch(thread));
                        } else {
                          block_backward(segment, head, lane, parts, p_.scratch(thread));
                        }
                      }
                    }
                  });
  gather(parts);
}

}  // namespace vitrine
