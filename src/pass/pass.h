// One trip of tokens through the model.
//
// A pass is the same for serving, training and looking inside. Its rows may belong to several sequences, each with
// positions and a cache of its own: a batch, a chunk of prefill, packed documents are all segments.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/exceptions.h"
#include "cache/kv_cache.h"
#include "pass/ledger.h"
#include "pass/machine.h"
#include "pass/taps.h"
#include "pass/training.h"

namespace vitrine {

/// The first infinite or NaN value of a sequence.
struct Failure {
  SiteId where;
  std::int64_t row = 0;  ///< Of the pass.
};
NotFinite error_of(const Failure& failure);

/// Rows [first_row, first_row + length) of a pass: consecutive tokens of one sequence, the first at `position`.
struct Segment {
  std::int64_t first_row = 0;
  std::int64_t length = 0;
  std::int64_t position = 0;
  KvCache* cache = nullptr;  ///< Holds the positions before; null: the sequence begins here.
  /// Set by the forward. A failed segment receives no logits and its cache does not advance; the others go on, with the
  /// same bits.
  std::optional<Failure> failure{};

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

/// Everything an op needs besides its operands. Taps work together with caches (serving) and with a tape (training); a
/// tape and a cache exclude each other.
struct Pass : Machine {
  std::vector<Segment> segments;
  LogitRequest logits{};
  Taps* taps = nullptr;
  DType kv_dtype = DType::f32;  ///< K and V are rounded to it before attention reads them.
  Learning training{};
  Ledger* ledger = nullptr;     ///< Ops are entered here.
  std::optional<SiteId> end{};  ///< Nothing is wanted from this site on. Set by the forward.

  /// Whether nothing is wanted from `id` on: the forward may end before it.
  bool ends_before(const SiteId& id) const { return end && !precedes(id, *end); }

  bool wants(const SiteId& id) const { return taps != nullptr && taps->wants(id); }
  /// Shows `value` at a site and returns what replaces it. Always use what it returns.
  Tensor tap(const SiteId& id, const Tensor& value) {
    if (ledger != nullptr) ledger->see(id, value);
    return wants(id) ? visit(id, value) : value;
  }

  /// `op` has made `output` from `inputs`: enters it in the ledger and on the tape, where there is one. `backward` adds
  /// to the gradient of each input (Tape::record).
  template <class Backward>
  void record(std::string_view op, std::span<const Tensor> inputs, const Tensor& output, Backward&& backward) {
    if (ledger != nullptr) ledger->enter(op, inputs, output);
    if (training.tape != nullptr) training.tape->record(op, inputs, output, std::forward<Backward>(backward));
  }
  template <class Backward>
  void record(std::string_view op, std::initializer_list<Tensor> inputs, const Tensor& output, Backward&& backward) {
    record(op, std::span(inputs.begin(), inputs.size()), output, std::forward<Backward>(backward));
  }
  bool is_taped() const { return training.tape != nullptr; }
  /// The gradient of a value, or of a parameter, on the tape.
  template <class Of>
  Tensor grad(const Of& of) const {
    return training.tape->grad(of);
  }
  /// For an op, or a path through it, that has no backward: throws Unsupported where there is a tape.
  void refuse_tape(std::string_view op) const;

 private:
  Tensor visit(const SiteId& id, const Tensor& value);
};

/// Returns what the pass has taken from the arena inside a scope; with a tape, which needs it, nothing.
class PassScope {
 public:
  explicit PassScope(const Pass& p) {
    if (!p.is_taped()) scope_.emplace(p.arena);
  }

 private:
  std::optional<ArenaScope> scope_;
};

}  // namespace vitrine
