// One trip of tokens through the model.
//
// A pass is the same for serving, training and looking inside. Its rows may belong to several sequences, each with
// positions and a cache of its own: a batch, a chunk of prefill, packed documents are all segments.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "autograd/tape.h"
#include "cache/kv_cache.h"
#include "kernels/kernels.h"
#include "parallel/thread_pool.h"
#include "pass/dropout.h"
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

/// What a pass learns: for every row the id that follows it, and what a wrong guess costs.
struct LossRequest {
  /// `[T]`; or, in a pass of one segment, `[T − 1]`, where nothing is known to follow the last row.
  std::span<const std::int32_t> targets;
  std::span<const float> weights;  ///< One a target: how much it counts; 0: not at all. Empty: all 1.
  float scale = 1.0f;              ///< Gradients are those of scale · (the sum of all rows' losses).
  float label_smoothing = 0.0f;    ///< This much of the target is spread evenly over the vocabulary.
  float z_loss = 0.0f;             ///< z_loss · (log Z)² is added to each row's loss.

  /// For mixtures of experts: balance · E · Σ_e f_e · P_e, where f_e is the part of a sequence's choices that fell on
  /// expert e and P_e its mean weight, averaged over sequences and summed over layers (Fedus et al. 2021); and
  /// router_z · (log Σ exp router logits)², averaged over tokens and summed over layers (Zoph et al. 2022).
  float balance = 0.0f;
  bool balance_over_layers = false;  ///< f and P over all layers and tokens of the pass, f summed over ranks: as
                                     ///< transformers' load_balancing_loss_func has it.
  float router_z = 0.0f;
  float router_scale = 1.0f;  ///< As `scale`: of the sum over the pass's segments, and over its rows' means in them.

  double cross_entropy = 0;  ///< Σ weight · cross-entropy, nats: what the forward found. Added to.
  double z_squares = 0;      ///< Σ weight · (log Z)². Added to.
  double balance_sum = 0;    ///< Σ over segments and layers of E · Σ f · P. Added to.
  double router_z_sum = 0;   ///< Σ over segments and layers of the mean square. Added to.

  /// Of this pass, for balance_over_layers: choices and weights by expert, and the rows of all layers that they are of.
  std::vector<double> choices{}, choice_weights{};
  std::int64_t routed_rows = 0;

  /// E · Σ f · P over all layers.
  double balance_of_layers() const {
    double sum = 0;
    const auto n = static_cast<double>(routed_rows);
    for (std::size_t e = 0; e < choices.size(); ++e) sum += choices[e] / n * (choice_weights[e] / n);
    return sum * static_cast<double>(choices.size());
  }
};

/// Everything an op needs besides its operands. Of the optional things taps go with caches (serving) or with a tape
/// (training); a tape and a cache exclude each other.
struct Pass {
  ThreadPool& pool;
  const Kernels& kernels;
  Arena& arena;
  std::vector<Segment> segments;
  LogitRequest logits;
  Taps* taps = nullptr;
  DType kv_dtype = DType::f32;                   ///< K and V are rounded to it before attention reads them.
  const std::atomic<bool>* interrupt = nullptr;  ///< When it turns true the pass throws Interrupted.
  Tape* tape = nullptr;         ///< Records the ops; what the pass makes stays in the arena until it is unwound.
  LossRequest* loss = nullptr;  ///< The loss is computed and added to; with a tape gradients go on from there.
  bool recompute =
      false;           ///< The tape keeps only the stream between blocks, and blocks run once more for the backward.
  Dropout dropout{};   ///< Of the embedding, what sublayers add to the stream, and attention's pattern.
  bool again = false;  ///< Such a block is running: taps have seen its values, and write as before.

  bool wants(const SiteId& id) const { return taps != nullptr && taps->wants(id); }
  /// Shows `value` at a site; returns what takes its place. Always use what it returns.
  Tensor tap(const SiteId& id, const Tensor& value) { return wants(id) ? visit(id, value) : value; }

  /// Throws Interrupted once the caller has asked to stop. Called between pieces of work of at most some milliseconds.
  void check_interrupt() const;

  Tensor tensor(const Shape& shape) { return arena.tensor(shape); }
  /// For an op, or a way through it, that has no backward: throws Unsupported where there is a tape.
  void refuse_tape(std::string_view op) const;
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

  /// body(first, count) over ranges of the columns of `rows` rows: each thread goes through all rows on its own, so
  /// what is summed over rows is summed in their order.
  template <class Body>
  void for_columns(std::int64_t n, std::int64_t rows, Body&& body) {
    constexpr std::int64_t kLine = 16;  // floats
    pool.parallel_for((n + kLine - 1) / kLine, kWorthAThread / (rows * kLine + 1) + 1,
                      [&](std::int64_t begin, std::int64_t end, int) {
                        body(begin * kLine, std::min(end * kLine, n) - begin * kLine);
                      });
  }

  static constexpr std::int64_t kWorthAThread = 1 << 15;  ///< Operations below which waking a thread costs more.

 private:
  Tensor visit(const SiteId& id, const Tensor& value);
};

/// Gives back at the end of a scope what the pass has taken inside it; with a tape, which needs it, nothing.
class PassScope {
 public:
  explicit PassScope(const Pass& p) {
    if (p.tape == nullptr) scope_.emplace(p.arena);
  }

 private:
  std::optional<ArenaScope> scope_;
};

}  // namespace vitrine
