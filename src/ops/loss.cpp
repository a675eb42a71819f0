#include "ops/loss.h"

#include <vector>

#include "base/math.h"
#include "ops/describe.h"

namespace vitrine {
namespace {

/// The largest element m of each row and Σ exp(x − m): `[n]` each.
struct Partition {
  Tensor largest, sum;
};

float log_of(float x) { return static_cast<float>(math::log(static_cast<double>(x))); }

/// Calls body(row, scratch) for all rows, in parallel. `scratch` has the size of a row.
template <class Body>
void for_rows_with_scratch(Pass& p, const Tensor& x, Body&& body) {
  const ArenaScope scope(p.arena);
  const std::int64_t n = x.row_size();
  const Tensor scratch = p.tensor({p.pool.size(), n});
  p.parallel_for(x.rows(), ExecutionContext::kOperationsPerThread / (8 * n + 1) + 1,
                 [&](std::int64_t begin, std::int64_t end, int thread) {
                   for (std::int64_t t = begin; t < end; ++t) body(t, scratch.row(thread));
                 });
}

Partition partition(Pass& p, const Tensor& x) {
  const Partition of{p.tensor({x.rows()}), p.tensor({x.rows()})};
  for_rows_with_scratch(p, x, [&](std::int64_t t, float* exponentials) {
    of.largest.data[t] = p.kernels.max(x.row(t), x.row_size());
    of.sum.data[t] = p.kernels.exp_sum(x.row(t), x.row_size(), of.largest.data[t], exponentials);
  });
  return of;
}

/// dx[t] += factor[t] · softmax(x[t])
void add_softmax(Pass& p, const Tensor& x, const Partition& of, const Tensor& factor, const Tensor& dx) {
  for_rows_with_scratch(p, x, [&](std::int64_t t, float* exponentials) {
    p.kernels.exp_sum(x.row(t), x.row_size(), of.largest.data[t], exponentials);
    p.kernels.add_scaled(exponentials, x.row_size(), factor.data[t] / of.sum.data[t], dx.row(t));
  });
}

}  // namespace

Tensor next_token_loss(Pass& p, const Tensor& logits, std::span<const std::int32_t> targets, float label_smoothing) {
  const std::int64_t n = logits.row_size();
  const Partition of = partition(p, logits);
  const Tensor loss = p.tensor({logits.rows()});
  p.for_rows(logits.rows(), n, [&](std::int64_t t) {
    const float* const x = logits.row(t);
    const float log_sum = log_of(of.sum.data[t]), largest = of.largest.data[t];
    loss.data[t] = log_sum + (largest - x[targets[static_cast<std::size_t>(t)]]);
    if (label_smoothing == 0.0f) return;
    const float uniform = log_sum + (largest - p.kernels.sum(x, n) / static_cast<float>(n));
    loss.data[t] = (1.0f - label_smoothing) * loss.data[t] + label_smoothing * uniform;
  });
  std::vector<std::int32_t> kept;  // for the backward
  if (p.is_taped()) kept.assign(targets.begin(), targets.end());
  p.record(OpKind::next_token_loss, {logits}, loss, [&p, logits, of, loss, label_smoothing, n, ids = std::move(kept)] {
    const Tensor dlogits = p.grad(logits), dloss = p.grad(loss);
    add_softmax(p, logits, of, dloss, dlogits);
    p.for_rows(logits.rows(), n, [&](std::int64_t t) {
      float* const dx = dlogits.row(t);
      dx[ids[static_cast<std::size_t>(t)]] -= (1.0f - label_smoothing) * dloss.data[t];
      if (label_smoothing == 0.0f) return;
      const float each = label_smoothing * dloss.data[t] / static_cast<float>(n);
      p.kernels.normalize(dx, n, each, 1.0f, dx);  // dx − each
    });
  });
  return loss;
}

Tensor log_partition(Pass& p, const Tensor& logits) {
  const Partition of = partition(p, logits);
  const Tensor log_z = p.tensor({logits.rows()});
  p.for_rows(logits.rows(), 16, [&](std::int64_t t) { log_z.data[t] = log_of(of.sum.data[t]) + of.largest.data[t]; });
  p.record(OpKind::log_partition, {logits}, log_z,
           [&p, logits, of, log_z] { add_softmax(p, logits, of, p.grad(log_z), p.grad(logits)); });
  return log_z;
}

namespace {

Cell loss_cell(const OpView& v, std::int64_t t) {
  const Seen& p = v.trace.values.at("softmax");
  return whole(0) -
         function("ln", math::log, Arithmetic(p[t * p.last_size() + v.trace.targets[static_cast<std::size_t>(t)]]));
}
Cell loss_gradient_cell(const OpView& v, std::size_t, std::int64_t i) {
  const Seen& p = v.trace.values.at("softmax");
  const auto t = static_cast<std::size_t>(i / p.last_size());
  if (v.trace.weights[t] == 0) return std::nullopt;
  return Arithmetic(p[i]) - whole(i % p.last_size() == v.trace.targets[t] ? 1 : 0);
}

}  // namespace

constexpr OpDescription next_token_loss_op{"src/ops/loss.cpp",
                                           {"L_{t} = −ln p_{t,\"next\"}", loss_cell},
                                           {"w_{t} · (p_{t,v} − [v = \"target\"])", loss_gradient_cell, {}, false}};

}  // namespace vitrine
