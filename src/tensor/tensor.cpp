#include "tensor/tensor.h"

#include <fmt/ranges.h>

#include "base/error.h"

namespace vitrine {

void Shape::refuse(std::initializer_list<std::int64_t> sizes) {
  throw InternalError("shape", "expected at most {} sizes of at least 0, got [{}]", kMaxRank, fmt::join(sizes, ", "));
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
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
