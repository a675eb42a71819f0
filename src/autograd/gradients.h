// The gradients of parameters.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "tensor/param.h"
#include "tensor/tensor.h"
#include "tensor/zero_memory.h"

namespace vitrine {

/// A gradient for each parameter that is trained: float32, dense, of the parameter's shape, whatever the parameter's
/// own type and strides. All are in one buffer, in the order in which they were added, each at a
/// multiple of kParamAlignment.
/// Backward functions add to the gradients, so the gradient of a parameter that is used twice (a tied head) is the sum
/// over both uses, and the gradient after several passes is the sum over all of them.
class Gradients {
 public:
  /// Adds a gradient of zeros for `param`, which is identified by its address from then on. Tensors that of() has
  /// returned become invalid. Throws Unsupported for a parameter in a block format, OutOfCapacity if memory is
  /// exhausted.
  void add(const Param& param);
  /// The gradient; no data if the parameter is not trained.
  Tensor of(const Param& param) const;

  /// The whole buffer. The gaps between gradients contain zeros.
  std::span<float> values() const { return {buffer_.floats(), static_cast<std::size_t>(size_)}; }
  /// Swaps the buffer with another of the same size. An empty buffer is first allocated and filled with zeros.
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
