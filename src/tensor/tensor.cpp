#include "tensor/tensor.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {

Shape::Shape(std::initializer_list<std::int64_t> sizes) : rank_(static_cast<int>(sizes.size())) {
  if (rank_ > kMaxRank) throw InternalError("shape", "expected at most {} sizes, got {}", kMaxRank, rank_);
  if (std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 0; })) {
    throw InternalError("shape", "expected sizes of at least 0");
  }
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
}

std::int64_t Shape::count() const {
  std::int64_t n = 1;
  for (std::int64_t size : sizes()) n *= size;
  return n;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::int64_t Tensor::row_size() const {
  std::int64_t n = 1;
  for (int i = 1; i < shape.rank(); ++i) n *= shape[i];
  return n;
}

Tensor Tensor::row_range(std::int64_t first, std::int64_t n) const {
  switch (shape.rank()) {
    case 1:
      return {row(first), {n}};
    case 2:
      return {row(first), {n, shape[1]}};
    case 3:
      return {row(first), {n, shape[1], shape[2]}};
    default:
      return {row(first), {n, shape[1], shape[2], shape[3]}};
  }
}

}  // namespace vitrine
