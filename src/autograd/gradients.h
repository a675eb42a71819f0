// The gradients of parameters.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "tensor/param.h"
#include "tensor/tensor.h"
#include "tensor/zero_memory.h"

namespace vitrine {

/// A gradient for each parameter that learns: float32, dense, of the parameter's shape, whatever the parameter's own
/// type and strides. All are in one buffer, in the order in which they were added, each aligned to 64 bytes. Backward
/// functions add to what they find, so a parameter that is used twice (a tied head) gets the sum of both uses, and
/// several passes get the sum of all.
class Gradients {
 public:
  /// Adds a gradient of zeros for `param`, which is identified by its address from then on. Tensors that of() returned
  /// before become invalid. Throws Unsupported for a parameter of quantized blocks, OutOfCapacity.
  void add(const Param& param);
  /// The gradient; no data if the parameter does not learn.
  Tensor of(const Param& param) const;
  void set_zero();

  /// The whole buffer; zeros between the gradients.
  std::span<float> values() const { return {buffer_.floats(), static_cast<std::size_t>(size_)}; }
  /// Exchanges the buffer for another of the same size; one of no size becomes zeros.
  void exchange(ZeroMemory& buffer);

 private:
  struct Place {
    std::int64_t first;  // element of the buffer
    Shape shape;
  };

  std::unordered_map<const Param*, Place> places_;
  ZeroMemory buffer_;
  std::int64_t size_ = 0;  // elements
};

}  // namespace vitrine
