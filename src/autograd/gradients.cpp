#include "autograd/gradients.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace vitrine {
namespace {

constexpr const char* kWhat = "gradients";

}  // namespace

void Gradients::add(const Param& param) {
  if (is_quantized(param.view.dtype)) {
    throw Unsupported(param.name, "a weight of {} has no gradient: expected f32, f16 or bf16",
                      name_of(param.view.dtype));
  }
  if (!places_.emplace(&param, Place{size_, param.shape}).second) {
    throw InternalError(param.name, "it already has a gradient");
  }
  size_ += round_up(param.shape.count(), kParamAlignment);
  buffer_.resize(size_ * static_cast<std::int64_t>(sizeof(float)), kWhat);
}

Tensor Gradients::of(const Param& param) const {
  const auto it = places_.find(&param);
  if (it == places_.end()) return {};
  return {buffer_.floats() + it->second.first, it->second.shape};
}

void Gradients::exchange(ZeroMemory& buffer) {
  if (buffer.size() == 0) buffer.resize(buffer_.size(), kWhat);
  if (buffer.size() != buffer_.size()) throw InternalError(kWhat, "exchanged for a buffer of another size");
  buffer_.swap(buffer);
}

}  // namespace vitrine
