#include "autograd/gradients.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

void Gradients::Free::operator()(float* p) const { std::free(p); }

void Gradients::add(const Param& param) {
  if (is_blocks(param.view.dtype)) {
    throw Unsupported(param.name, "a weight of {} blocks has no gradient: expected f32, f16 or bf16",
                      name_of(param.view.dtype));
  }
  const auto n = static_cast<std::size_t>(param.shape.count());
  const std::size_t bytes = (n * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
  Place place{std::unique_ptr<float, Free>(static_cast<float*>(std::aligned_alloc(kAlignment, bytes))), param.shape};
  if (!place.data) throw OutOfCapacity(param.name, "no memory for {} bytes of its gradient", bytes);
  std::fill_n(place.data.get(), n, 0.0f);
  places_.insert_or_assign(&param, std::move(place));
}

Tensor Gradients::of(const Param& param) const {
  const auto it = places_.find(&param);
  if (it == places_.end()) return {};
  return {it->second.data.get(), it->second.shape};
}

void Gradients::set_zero() {
  for (auto& [param, place] : places_) std::fill_n(place.data.get(), place.shape.count(), 0.0f);
}

}  // namespace vitrine
