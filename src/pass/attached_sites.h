// What a pass computes at sites in addition to the model.
#pragma once

#include "pass/sites.h"
#include "tensor/tensor.h"

namespace vitrine {

struct Pass;

/// The dictionaries of the segments (ops/dictionary_run.h). Called on the thread that runs the forward.
class AttachedSites {
 public:
  virtual ~AttachedSites() = default;
  /// Must be cheap: the forward calls it at every site.
  virtual bool is_at(const SiteId& id) const = 0;
  /// Whether it is the output site of one of them.
  virtual bool is_output(const SiteId& id) const = 0;
  /// Called for the value of such a site, after the taps have seen it. Returns the value to continue with.
  virtual Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) = 0;
};

}  // namespace vitrine
