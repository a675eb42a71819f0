// Reading and replacing the values of a forward.
#pragma once

#include <optional>

#include "pass/sites.h"
#include "pass/sparse_rows.h"
#include "tensor/tensor.h"

namespace vitrine {

struct Pass;

/// Rows of a pass: [first, end).
struct WantedRows {
  std::int64_t first = 0, end = 0;
};

/// Receives the values at sites. Its functions are called on the thread that runs the forward.
class Taps {
 public:
  virtual ~Taps() = default;
  /// Must be cheap: the forward calls it at every site.
  virtual bool wants(const SiteId& id) const = 0;
  /// Called once for each site that the taps want. Returns `value`, or a tensor of the same shape that replaces it.
  /// The memory of `value` is reused after the call, so copy what you keep. Do not write to it: allocate a new tensor,
  /// in the pass's arena for example, that lives until the pass ends. With a tape, record the new tensor as an op.
  virtual Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) = 0;
  /// For the values of recurrent cells, whose rows are computed one after another: called when elements [first, first +
  /// count) of `value` have been computed, before they are used; later ones have not been. May change them in place. If
  /// `factor` has data, multiplies the same elements of it by the derivative of the change.
  virtual void visit_step(Pass&, const SiteId&, const Tensor& /*value*/, std::int64_t /*first*/, std::int64_t /*count*/,
                          const Tensor& /*factor*/) {}
  /// Called once for such a site, with the complete value.
  virtual void visit_steps(Pass& pass, const SiteId& id, const Tensor& value) { visit(pass, id, value); }
  /// The rows that the taps want of a value that is large and computed for them alone (a state after every token), and
  /// do not change; nullopt: all. A pass without a tape computes and keeps only these, and calls visit_rows() instead
  /// of visit() with `[end − first, …]`.
  virtual std::optional<WantedRows> wanted_rows(const SiteId&) const { return {}; }
  virtual void visit_rows(Pass&, const SiteId&, const Tensor& /*rows*/) {}
  /// Whether the taps want the activations of a dictionary (`hook_sae_acts_post`), after any write, as sparse rows.
  /// They then need no memory for those that are 0.
  virtual bool wants_sparse(const SiteId&) const { return false; }
  /// Called once for each such site. Rows of the value are rows of the pass.
  virtual void visit_sparse(Pass&, const SiteId&, const SparseRows&) {}
  /// The last site, in the order of a forward, that the taps may want; nullopt: any site. A pass that has no
  /// other results to compute ends there.
  virtual std::optional<SiteId> last_wanted() const { return {}; }

  /// Whether the pass ends when a value of one of its sequences is not finite. Else only that sequence fails.
  virtual bool ends_at_failure() const { return true; }

  /// Whether the taps see the scores and patterns of all segments as one value, `[n, H, T, S]` instead of n values
  /// `[H, T, S]`. The segments of the pass then have the same length, and no caches.
  virtual bool joins_segments() const { return false; }

  /// Whether visit() may receive the value of a site of the head in groups of rows, one after another. A pass over one
  /// segment without a tape then needs no memory for the logits of all its rows.
  virtual bool takes_groups(const SiteId&) const { return false; }

  virtual bool wants_gradient(const SiteId&) const { return false; }
  /// The gradient of the loss with respect to the value that visit() returned. Called while the tape is unwound, that
  /// is, in reverse order.
  virtual void visit_gradient(Pass&, const SiteId&, const Tensor& /*gradient*/) {}
};

}  // namespace vitrine
