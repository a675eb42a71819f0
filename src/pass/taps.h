// Looking inside a forward, and reaching into it.
#pragma once

#include <optional>

#include "pass/sites.h"
#include "tensor/tensor.h"

namespace vitrine {

struct Pass;

/// Sees the values at sites. Called on the thread that runs the forward, once for each site that it wants.
class Taps {
 public:
  virtual ~Taps() = default;
  /// Cheap; sites that nobody wants cost one such call.
  virtual bool wants(const SiteId& id) const = 0;
  /// Returns `value` itself, or a tensor of the same shape which takes its place. The value's memory is reused after
  /// the call, so what is to be kept is copied; it is never written to: a write makes a new value (of the pass's arena,
  /// say), and the returned one must live until the pass ends or is released with its block.
  /// With a tape the new value is an op like others, and whoever makes it records it.
  virtual Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) = 0;
  /// The last site, in the order of a forward, that it may want; a pass that nobody wants anything else of ends there.
  /// Nothing: any site.
  virtual std::optional<SiteId> last_wanted() const { return {}; }

  virtual bool wants_gradient(const SiteId&) const { return false; }
  /// The gradient of the loss by the value at a site that was visited, after any write into it; when the tape is
  /// unwound, in reverse order.
  virtual void visit_gradient(Pass&, const SiteId&, const Tensor& /*gradient*/) {}
};

}  // namespace vitrine
