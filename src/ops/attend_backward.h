// The backward of attention: what its tiles share, for segments whose strips are recomputed and for those whose strips
// are stored (ops/attend.cpp).
#pragma once

#include <algorithm>
#include <vector>

#include "ops/elementwise.h"
#include "ops/segment_attention.h"

namespace vitrine {

using Segments = std::vector<SegmentAttention>;

/// Per-thread scratch for the backward of one tile.
struct BackwardScratch {
  const Pass& pass;
  Tensor queries, strips, capped, dropped, dstrips, transposed, rows;

  BackwardScratch(Pass& p, std::int64_t wide, std::int64_t n_rows, std::int64_t positions)
      : pass(p),
        queries(p.tensor({p.pool.size(), n_rows, wide})),
        strips(p.tensor({p.pool.size(), n_rows, positions})),
        capped(p.tensor({p.pool.size(), n_rows, positions})),
        dropped(p.tensor({p.pool.size(), n_rows, positions})),
        dstrips(p.tensor({p.pool.size(), n_rows, positions})),
        transposed(p.tensor({p.pool.size(), n_rows, positions})),
        rows(p.tensor({p.pool.size(), n_rows, wide})) {}

  Tile tile(int thread) const { return {queries.row(thread), strips.row(thread), pass.scratch(thread)}; }
  GradientTile gradient(int thread) const {
    return {dstrips.row(thread), transposed.row(thread), rows.row(thread), {}, {}, {}, {}};
  }
};

inline std::int64_t max_positions(const Segments& segments) {
  std::int64_t most = 0;
  for (const SegmentAttention& s : segments) most = std::max(most, s.n_positions());
  return most;
}

/// Calls body(segment, K/V head, worker) for all K/V heads, in parallel. One worker processes all queries of a K/V
/// head, so that the gradients of its keys and values are summed in the order of the queries.
template <class Body>
void for_kv_heads(Pass& p, const AttendConfig& c, const Segments& segments, Body&& body) {
  const auto n = static_cast<std::int64_t>(segments.size()) * c.n_kv_heads;
  const std::int64_t grain =
      ExecutionContext::kOperationsPerThread / (segments.front().operations() / c.n_kv_heads + 1) + 1;
  p.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
    for (std::int64_t i = begin; i < end; ++i) {
      p.check_interrupt();
      body(segments[static_cast<std::size_t>(i / c.n_kv_heads)], i % c.n_kv_heads, worker);
    }
  });
}

/// The gradient of the relative bias from each segment, `[n_segments, n_heads, 2n − 1]`, initially zero; no data
/// without a bias. Segments are added in descending order, the order in which a tape with an op for each of them is
/// unwound.
inline Tensor zero_biases(Pass& p, const Tensor& bias, std::size_t n_segments) {
  if (bias.data == nullptr) return {};
  const Tensor parts = p.tensor({static_cast<std::int64_t>(n_segments), bias.shape[0], bias.shape[1]});
  if (!p.shapes_only) std::fill_n(parts.data, parts.count(), 0.0f);
  return parts;
}

inline Tensor part_of(const Tensor& parts, std::int64_t segment) {
  if (parts.data == nullptr) return {};
  return {parts.row(segment), {parts.shape[1], parts.shape[2]}};
}

inline void add_biases(Pass& p, const Tensor& parts, const Tensor& bias) {
  if (bias.data == nullptr) return;
  const Tensor dbias = p.grad(bias);
  for (std::int64_t i = parts.rows(); i-- > 0;) accumulate(p, part_of(parts, i), dbias);
}

/// The gradients of the terms by row that tiles add to. Those of a key are summed in the order of the queries, as all
/// strips of a head are one worker's (for_kv_heads). They are taken before the workers start: the first request for a
/// gradient makes it.
struct RowGradients {
  Tensor of_queries{}, of_keys{};

  RowGradients(const Pass& p, const RelativeScores& relative) {
    if (relative.of_queries.data != nullptr) of_queries = p.grad(relative.of_queries);
    if (relative.of_keys.data != nullptr) of_keys = p.grad(relative.of_keys);
  }
  bool exist() const { return of_queries.data != nullptr || of_keys.data != nullptr; }
};

/// The gradient of the sinks from each row, `[T, n_heads]`; no data without sinks.
inline Tensor sinks_by_row(Pass& p, const Param* sinks, std::int64_t n_rows) {
  return sinks != nullptr ? p.tensor({n_rows, sinks->shape[0]}) : Tensor();
}

/// The backward of the four steps, over tiles whose strips are recomputed. The order of all sums is that of one thread.
void run_tiles_backward(Pass& p, const AttendConfig& c, const Segments& segments, const Tensor& dz, const Tensor& dq,
                        const Tensor& dk, const Tensor& dv, const RelativeScores& relative, const Param* sinks);
/// The same with constant patterns: the gradient of the values alone.
void run_values_backward(Pass& p, const AttendConfig& c, const Segments& segments, const Tensor& dz, const Tensor& dv);

}  // namespace vitrine
