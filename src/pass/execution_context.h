// The resources that an op computes with: threads, kernels and memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/caller_poll.h"
#include "kernels/kernels.h"
#include "parallel/thread_pool.h"
#include "pass/compute.h"
#include "tensor/arena.h"
#include "tensor/param.h"
#include "tensor/tensor.h"

namespace vitrine {

/// The part of a pass that does not depend on its tokens. Ops loop over elements only through the functions below, so
/// that a dry run (model/dry_run.h) is the same forward without the loops.
struct ExecutionContext {
  ThreadPool& pool;
  const Kernels& kernels;
  Arena& arena;
  const std::atomic<bool>* interrupt = nullptr;  ///< The pass throws Interrupted when it becomes true.
  bool shapes_only = false;                      ///< A dry run: tensors have no elements, and loops do not run.
  Compute compute = Compute::automatic;
  CallerPoll* poll = nullptr;

  /// Throws Interrupted if the caller has requested it, and polls for the caller. Every loop begins with this check;
  /// loops that take longer than a few milliseconds repeat it.
  void check_interrupt() const;

  /// Scratch of kScratchFloats floats for the kernels; each thread of the pool has its own.
  float* scratch(int thread) const {
    static_assert(kScratchFloats * static_cast<std::int64_t>(sizeof(float)) <= ThreadPool::kScratchBytes);
    return reinterpret_cast<float*>(pool.scratch(thread));
  }
  Tensor tensor(const Shape& shape) { return arena.tensor(shape); }
  /// A tensor whose elements are `value`.
  Tensor filled(const Shape& shape, float value) {
    const Tensor x = tensor(shape);
    if (!shapes_only) std::fill_n(x.data, x.count(), value);
    return x;
  }
  /// Converts the first n elements of a row of w to floats (kernels/widen_row.h).
  void widen(const MatrixView& w, std::int64_t row, std::int64_t n, float* y) const;
  /// A vector parameter, or the rows of a small matrix, as floats: the stored elements if they are aligned f32, else a
  /// widened copy in the arena.
  const float* vector(const Param& param);
  void copy(const float* from, std::int64_t n, float* to) {
    parallel_for(n, kOperationsPerThread,
                 [&](std::int64_t begin, std::int64_t end, int) { std::copy(from + begin, from + end, to + begin); });
  }

  template <class Body>
  void parallel_for(std::int64_t n, std::int64_t grain, Body&& body) {
    check_interrupt();
    if (!shapes_only) pool.parallel_for(n, grain, body);
  }

  /// Calls body(row) for every row in [0, n), on several threads if the work of `operations` per row justifies it.
  template <class Body>
  void for_rows(std::int64_t n, std::int64_t operations, Body&& body) {
    parallel_for(n, kOperationsPerThread / (operations + 1) + 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row) body(row);
    });
  }

  /// Calls body(first, count) for ranges of the n columns of `rows` rows. Each range covers all rows, so that sums over
  /// rows are in row order.
  template <class Body>
  void for_columns(std::int64_t n, std::int64_t rows, Body&& body) {
    constexpr std::int64_t kLine = 16;  // floats of a cache line
    parallel_for((n + kLine - 1) / kLine, kOperationsPerThread / (rows * kLine + 1) + 1,
                 [&](std::int64_t begin, std::int64_t end, int) {
                   body(begin * kLine, std::min(end * kLine, n) - begin * kLine);
                 });
  }

  static constexpr std::int64_t kOperationsPerThread = 1 << 15;  ///< Fewer do not justify waking a thread.
};

}  // namespace vitrine
