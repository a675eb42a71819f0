// One trip of tokens through the model.
//
// A pass is the same for serving, training and looking inside. Its rows may belong to several sequences, each with
// positions and a cache of its own: a batch, a chunk of prefill, packed documents are all segments.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "cache/kv_cache.h"
#include "kernels/kernels.h"
#include "parallel/thread_pool.h"
#include "pass/taps.h"
#include "tensor/arena.h"
#include "tensor/param.h"
#include "tensor/tensor.h"

namespace vitrine {

/// Rows [first_row, first_row + length) of a pass: consecutive tokens of one sequence, the first at `position`.
struct Segment {
  std::int64_t first_row = 0;
  std::int64_t length = 0;
  std::int64_t position = 0;
  KvCache* cache = nullptr;  ///< Holds the positions before; null: the sequence begins here.

  /// Tokens that the sequence is made for: its cache's capacity, or all it has. The same for each of its passes, so
  /// what depends on a sequence's length depends on this.
  std::int64_t planned_length() const { return cache != nullptr ? cache->capacity() : length; }
};

/// Which rows get logits, and who receives them. With a large vocabulary all rows of a long prompt would not fit in
/// memory, so they come in groups of rows, in ascending order.
struct LogitRequest {
  enum class Rows : std::uint8_t { none, last_of_segments, range };

  Rows rows = Rows::none;
  std::int64_t begin = 0;  ///< For `range`: rows [begin, end) of the pass.
  std::int64_t end = 0;
  /// `logits` is `[n, vocab_size]`; its first row belongs to the `first`-th requested row. Valid during the call only.
  std::function<void(std::int64_t first, const Tensor& logits)> receive;
};

/// Everything an op needs besides its operands. Of the optional things (caches, taps) any combination works.
struct Pass {
  ThreadPool& pool;
  const Kernels& kernels;
  Arena& arena;
  std::vector<Segment> segments;
  LogitRequest logits;
  Taps* taps = nullptr;
  DType kv_dtype = DType::f32;                   ///< K and V are rounded to it before attention reads them.
  const std::atomic<bool>* interrupt = nullptr;  ///< When it turns true the pass throws Interrupted.

  bool wants(const SiteId& id) const { return taps != nullptr && taps->wants(id); }
  /// Shows `value` at a site; returns what takes its place. Always use what it returns.
  Tensor tap(const SiteId& id, const Tensor& value) { return wants(id) ? visit(id, value) : value; }

  /// Throws Interrupted once the caller has asked to stop. Called between pieces of work of at most some milliseconds.
  void check_interrupt() const;

  Tensor tensor(const Shape& shape) { return arena.tensor(shape); }
  /// `n` stored elements to floats, exact; of blocks, whole ones.
  void widen(const std::byte* x, DType dtype, std::int64_t n, float* y) const;
  /// A vector parameter as floats: where it lies if it is F32, else widened.
  const float* vector(const Param& param);

  /// body(row) for every row in [0, n), over threads where the work (`operations` a row) is worth waking them.
  template <class Body>
  void for_rows(std::int64_t n, std::int64_t operations, Body&& body) {
    pool.parallel_for(n, kWorthAThread / (operations + 1) + 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row) body(row);
    });
  }

  static constexpr std::int64_t kWorthAThread = 1 << 15;  ///< Operations below which waking a thread costs more.

 private:
  Tensor visit(const SiteId& id, const Tensor& value);
};

}  // namespace vitrine
