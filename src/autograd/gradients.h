// The gradients of parameters.
#pragma once

#include <memory>
#include <unordered_map>

#include "tensor/param.h"
#include "tensor/tensor.h"

namespace vitrine {

/// One gradient for each parameter that is to learn: float32, dense, of the parameter's shape, whatever the parameter's
/// own type and strides. What backward functions find they add, so a parameter that is used twice (a tied head) has the
/// sum of both uses, and several passes have the sum of all.
class Gradients {
 public:
  /// A gradient of zeros for `param`, which is known by its address from then on. Throws Unsupported for a parameter
  /// of quantized blocks, OutOfCapacity where memory is refused.
  void add(const Param& param);
  /// The gradient; no data where the parameter does not learn.
  Tensor of(const Param& param) const;
  void set_zero();

 private:
  struct Free {
    void operator()(float* p) const;
  };
  struct Place {
    std::unique_ptr<float, Free> data;
    Shape shape;
  };

  std::unordered_map<const Param*, Place> places_;
};

}  // namespace vitrine
