// One pass of tokens through the model.
//
// Serving, training and inspection all use the same pass. Its rows may belong to several sequences, each with its own
// positions and cache: the sequences of a batch, a chunk of a prefill, and packed documents are all segments.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/exceptions.h"
#include "base/exchanged.h"
#include "cache/kv_cache.h"
#include "pass/attached_sites.h"
#include "pass/execution_context.h"
#include "pass/ledger.h"
#include "pass/model_split.h"
#include "pass/modifiers.h"
#include "pass/taps.h"
#include "pass/training.h"

namespace vitrine {

/// The first infinite or NaN value of a sequence.
struct Failure {
  SiteId where;
  std::int64_t row = 0;  ///< A row of the pass.
};
NotFinite error_of(const Failure& failure);

/// Rows [first_row, first_row + length) of a pass: consecutive tokens of one sequence, the first at `position`.
struct Segment {
  std::int64_t first_row = 0;
  std::int64_t length = 0;
  std::int64_t position = 0;
  KvCache* cache = nullptr;  ///< Holds the earlier positions; null: the sequence begins here.
  /// In a model with an encoder: the segment of Pass::sources that this one attends to. −1: an earlier pass has read
  /// the source, and the cache holds its keys and values.
  int source = -1;
  std::int64_t n_padding = 0;  ///< Its last rows that no row attends to; not with a cache.
  /// Set by the forward. A failed segment receives no logits and its cache does not advance. Other segments are not
  /// affected.
  std::optional<Failure> failure{};
  Modifiers modifiers{};  ///< They change the values of its rows.

  /// The capacity of the sequence's cache, or the segment's length if there is no cache. RoPE scalings that depend on
  /// the length use it, because it is the same in every pass of the sequence.
  std::int64_t planned_length() const { return cache != nullptr ? cache->capacity() : length; }
};

/// Which rows get logits, and which function receives the logits. With a large vocabulary the logits of a long prompt
/// do not fit in memory, so they arrive in groups of rows, in ascending order.
struct LogitRequest {
  enum class Rows : std::uint8_t { none, last_of_segments, range, chosen };

  Rows rows = Rows::none;
  std::int64_t begin = 0;  ///< For `range`: rows [begin, end) of the pass.
  std::int64_t end = 0;
  /// `logits` is `[n, vocab_size]`; its first row belongs to the `first`-th requested row. Valid only during the call.
  std::function<void(std::int64_t first, const Tensor& logits)> receive;
  std::vector<std::int64_t> chosen{};  ///< For `chosen`: rows of the pass, ascending.
  /// Memory of the caller, `[n, vocab_size]`, for the logits of all requested rows. The arena first returns what it
  /// does not use to the system, so that the pass needs little more memory than the logits. Without a loss, a tape and
  /// a split.
  Tensor into{};
};

/// Which rows of the pass the rows of a value are.
struct RowsOfValue {
  Stack stack = Stack::only;
  std::optional<std::span<const std::int64_t>> chosen{};  ///< None: all rows of the stack's segments.
};

/// Where a pass begins that does not run the first layers, because their result is known.
struct PassStart {
  int layer = 0;  ///< The number of layers: the pass is the final norm and the head.
  Tensor stream;  ///< `[T, d]`: blocks.{layer}.hook_resid_pre of all rows.
  /// With a tape, receives the gradient with respect to the stream. Valid only during the call.
  std::function<void(const Tensor& gradient)> receive_gradient{};
};

/// Everything that an op needs in addition to its operands. Taps work with caches (serving) and with a tape (training).
/// A pass with a tape cannot have caches.
struct Pass : ExecutionContext {
  std::vector<Segment> segments;
  LogitRequest logits{};
  Taps* taps = nullptr;
  KvTypes kv_types{};  ///< Without a cache, K and V are rounded to them before attention reads them.
  TrainingRequest training{};
  Ledger* ledger = nullptr;     ///< If not null, it receives every op.
  std::optional<SiteId> end{};  ///< Set by the forward: neither this site nor any later one is needed.
  /// Receives rows `[n, d]` of the model's first stack after its final norm: all of them, or `hidden_rows`, which are
  /// ascending. Valid only during the call, as below.
  std::function<void(const Tensor& rows)> receive_hidden{};
  std::optional<std::vector<std::int64_t>> hidden_rows{};  ///< Not in a model with an encoder.
  /// Receives the pooler's vector of each segment `[n, d]`, and the logits of the next sentence `[n, 2]`.
  std::function<void(const Tensor&vectors)> receive_pooled{}, receive_next_sentence{};
  /// Receives the outputs of a task head: `[n, labels]`, of each segment or of each row.
  std::function<void(const Tensor& outputs)> receive_outputs{};
  std::vector<Segment> sources{};    ///< The rows of the encoder. Their positions begin at 0, and they have no caches.
  std::optional<PassStart> start{};  ///< Of the model's own stack; without an encoder.
  ModelSplit* split = nullptr;       ///< Not null: other processes run parts of this pass. Without a tape.
  RowsOfValue rows{};                ///< Set by the forward: the rows that linear maps read now. Adapters depend on it.
  /// Set by the forward: the dictionaries of the segments. They last as long as the pass, because a backward may repeat
  /// blocks.
  std::shared_ptr<AttachedSites> attached{};

  /// The segments whose rows a stack computes.
  std::vector<Segment>& segments_of(Stack stack) { return stack == Stack::encoder ? sources : segments; }

  /// Whether neither `id` nor any later site is needed, so that the forward may end before it.
  bool ends_before(const SiteId& id) const { return end && !precedes(id, *end); }

  /// Whether anything reads the value of a site: the taps, or a dictionary.
  bool wants(const SiteId& id) const { return taps_want(id) || (attached != nullptr && attached->is_at(id)); }
  bool taps_want(const SiteId& id) const { return taps != nullptr && taps->wants(id); }
  /// Passes `value` to the taps and returns the value to continue with, which is another tensor if a tap replaced it.
  Tensor tap(const SiteId& id, const Tensor& value) {
    if (ledger != nullptr) ledger->name_after(id, value);
    return wants(id) ? visit(id, value) : value;
  }

  /// The rows that taps want of a value that they do not change; nullopt: they want all, or may change it.
  std::optional<WantedRows> wanted_rows(const SiteId& id) const {
    const bool may_choose = taps_want(id) && !is_taped() && !shapes_only && split == nullptr;
    return may_choose ? taps->wanted_rows(id) : std::nullopt;
  }

  /// Passes elements of a value whose rows are computed one after another to the taps, if they want it.
  void tap_step(const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count, const Tensor& factor) {
    if (value.data == nullptr || taps == nullptr) return;
    if (split != nullptr) return split->visit_step(*this, id, value, first, count);
    taps->visit_step(*this, id, value, first, count, factor);
  }
  /// Passes such a value to the taps when it is complete.
  void tap_steps(const SiteId& id, const Tensor& value) {
    if (taps == nullptr) return;
    split != nullptr ? split->visit_steps(*this, id, value) : taps->visit_steps(*this, id, value);
  }

  /// Enters an op that has computed `output` from `inputs` in the ledger and on the tape, if there are any. `backward`
  /// adds to the gradient of each input (Tape::record).
  template <class Backward>
  void record(const OpCall& call, std::span<const Tensor> inputs, const Tensor& output, Backward&& backward) {
    if (ledger != nullptr) ledger->enter(call, inputs, output);
    if (training.tape == nullptr) return;
    if (training.linearizes && !is_linear(call.kind)) return record_refusal(call.kind, inputs, output);
    training.tape->record(name_of(call.kind), inputs, output, std::forward<Backward>(backward));
  }
  template <class Backward>
  void record(const OpCall& call, std::initializer_list<Tensor> inputs, const Tensor& output, Backward&& backward) {
    record(call, std::span(inputs.begin(), inputs.size()), output, std::forward<Backward>(backward));
  }
  /// The value of `width` columns of which a split has computed some; else `own` (ModelSplit::gather).
  Tensor whole(const Tensor& own, std::int64_t width, const ModelSplit::Parts& parts = {}) {
    if (own.row_size() == width) return own;
    const Tensor all = tensor({own.rows(), width});
    split->gather(own, all, parts);
    return all;
  }
  /// The columns of `whole` that a split computes here, of which there are `width`; else `whole`.
  Tensor part(const Tensor& whole, std::int64_t width, const ModelSplit::Parts& parts) {
    if (whole.row_size() == width) return whole;
    const Tensor own = tensor({whole.rows(), width});
    split->take_part(whole, own, parts);
    return own;
  }
  bool is_taped() const { return training.tape != nullptr; }
  /// The gradient of a value or of a parameter.
  template <class Of>
  Tensor grad(const Of& of) const {
    return training.tape->grad(of);
  }
  /// Called by ops that have no backward: throws Unsupported if there is a tape.
  void refuse_tape(std::string_view op) const;

 private:
  Tensor visit(const SiteId& id, const Tensor& value);
  /// Records an op whose backward throws Unsupported.
  void record_refusal(OpKind kind, std::span<const Tensor> inputs, const Tensor& output);
};

/// Runs ops without the sites of the pass, for values that are no part of its forward.
class WithoutSites {
 public:
  explicit WithoutSites(Pass& p) : taps_(p.taps, nullptr), attached_(p.attached, {}) {}

 private:
  Exchanged<Taps*> taps_;
  Exchanged<std::shared_ptr<AttachedSites>> attached_;
};

/// Releases the arena's memory at the end of a scope, unless there is a tape, which still needs the values.
class PassScope {
 public:
  explicit PassScope(const Pass& p) {
    if (!p.is_taped()) scope_.emplace(p.arena);
  }

 private:
  std::optional<ArenaScope> scope_;
};

}  // namespace vitrine
