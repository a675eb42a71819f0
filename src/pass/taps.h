// Looking inside a forward, and reaching into it.
#pragma once

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
  virtual Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) = 0;
};

}  // namespace vitrine
