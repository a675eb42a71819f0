// Reading and replacing the values of a forward.
#pragma once

#include <optional>

#include "pass/sites.h"
#include "tensor/tensor.h"

namespace vitrine {

struct Pass;

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
  /// The last site, in the order of a forward, that the taps may want; nullopt: any site. A pass that has no
  /// other results to compute ends there.
  virtual std::optional<SiteId> last_wanted() const { return {}; }

  virtual bool wants_gradient(const SiteId&) const { return false; }
  /// The gradient of the loss with respect to the value that visit() returned. Called while the tape is unwound, that
  /// is, in reverse order.
  virtual void visit_gradient(Pass&, const SiteId&, const Tensor& /*gradient*/) {}
};

}  // namespace vitrine
