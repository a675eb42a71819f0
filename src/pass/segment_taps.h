// Taps of single sequences, in a pass that has the rows of several.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "pass/taps.h"

namespace vitrine {

/// Receives the values of one sequence, in any number of passes. Its functions are called on the thread that runs the
/// forward.
class SequenceTaps {
 public:
  virtual ~SequenceTaps() = default;
  /// Must be cheap: the forward calls it at every site.
  virtual bool wants(const SiteId& id) const = 0;
  /// As Taps::visit, with rows of this sequence only. `positions`: those of the tokens that the rows belong to,
  /// ascending; for scores and patterns `[H, T, S]` those of T. The tokens of an expert are positions, not rows.
  /// In a dry run the value has rows of all sequences, and there are no positions.
  virtual Tensor visit(Pass& pass, const SiteId& id, const Tensor& value, std::span<const std::int64_t> positions) = 0;
  /// As Taps::visit_step, for a state that the next token reads: `value` has the rows of this sequence in the pass, of
  /// which that of token `position` has been computed. By default visit() receives this row.
  virtual void visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t row, std::int64_t position);
  /// As Taps::visit_steps, with rows of this sequence.
  virtual void visit_steps(Pass&, const SiteId&, const Tensor& /*value*/) {}
  /// As Taps::wants_sparse and visit_sparse, with rows of this sequence.
  virtual bool wants_sparse(const SiteId&) const { return false; }
  virtual void visit_sparse(const SiteId&, std::span<const std::vector<SparseValue>> /*rows*/,
                            std::span<const std::int64_t> /*positions*/) {}
  /// As Taps::last_wanted.
  virtual std::optional<SiteId> last_wanted() const { return {}; }
  /// Whether the values are those of all tokens at once: an engine then feeds the prompt in one pass.
  virtual bool needs_one_pass() const { return false; }
};

/// Divides the values of a pass among the taps of its segments. A segment whose values are not finite fails alone, and
/// its taps receive nothing more. Not for encoders, recurrent cells and vectors of poolers, whose rows do not belong
/// to segments.
class SegmentTaps : public Taps {
 public:
  /// `of_segments`: one for each segment of the pass, or null.
  explicit SegmentTaps(std::vector<SequenceTaps*> of_segments) : of_segments_(std::move(of_segments)) {}

  bool wants(const SiteId& id) const override;
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override;
  /// Of whole rows, in a pass without a tape.
  void visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count,
                  const Tensor& factor) override;
  void visit_steps(Pass& pass, const SiteId& id, const Tensor& value) override;
  bool wants_sparse(const SiteId& id) const override;
  void visit_sparse(Pass& pass, const SiteId& id, const SparseRows& rows) override;
  std::optional<SiteId> last_wanted() const override;
  bool ends_at_failure() const override { return false; }

 private:
  std::vector<SequenceTaps*> of_segments_;
};

}  // namespace vitrine
