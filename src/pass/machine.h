// What an op computes on: threads, kernels, memory, and a request to stop.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "kernels/kernels.h"
#include "parallel/thread_pool.h"
#include "tensor/arena.h"
#include "tensor/param.h"
#include "tensor/tensor.h"

namespace vitrine {

/// The part of a pass that does not depend on its tokens. An op loops over elements only through the functions below,
/// so that a run of shapes alone (model/dry_run.h) is the same forward with the loops left out.
struct Machine {
  ThreadPool& pool;
  const Kernels& kernels;
  Arena& arena;
  const std::atomic<bool>* interrupt = nullptr;  ///< When it becomes true the pass throws Interrupted.
  bool shapes_only = false;                      ///< Tensors have shapes but no elements, and loops do not run.

  /// Throws Interrupted once the caller has asked to stop. Called between pieces of work of at most some milliseconds.
  void check_interrupt() const;

  Tensor tensor(const Shape& shape) { return arena.tensor(shape); }
  /// Converts `n` stored elements to floats, exactly; of block formats, whole blocks.
  void widen(const std::byte* x, DType dtype, std::int64_t n, float* y) const;
  /// A vector parameter as floats: the stored elements if they are F32, else a widened copy in the arena.
  const float* vector(const Param& param);
  void copy(const float* from, std::int64_t n, float* to) const {
    if (!shapes_only) std::copy_n(from, n, to);
  }

  /// ThreadPool::parallel_for.
  template <class Body>
  void parallel_for(std::int64_t n, std::int64_t grain, Body&& body) {
    if (!shapes_only) pool.parallel_for(n, grain, body);
  }

  /// body(row) for every row in [0, n), on several threads if `operations` a row justify waking them.
  template <class Body>
  void for_rows(std::int64_t n, std::int64_t operations, Body&& body) {
    parallel_for(n, kWorthAThread / (operations + 1) + 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row) body(row);
    });
  }

  /// body(first, count) over ranges of the columns of `rows` rows. Each thread goes through all rows, so sums over rows
  /// are taken in row order.
  template <class Body>
  void for_columns(std::int64_t n, std::int64_t rows, Body&& body) {
    constexpr std::int64_t kLine = 16;  // floats
    parallel_for((n + kLine - 1) / kLine, kWorthAThread / (rows * kLine + 1) + 1,
                 [&](std::int64_t begin, std::int64_t end, int) {
                   body(begin * kLine, std::min(end * kLine, n) - begin * kLine);
                 });
  }

  static constexpr std::int64_t kWorthAThread = 1 << 15;  ///< Operations below which waking a thread costs more.
};

}  // namespace vitrine
