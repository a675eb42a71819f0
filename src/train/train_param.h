// A parameter in training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tensor/param.h"

namespace vitrine {

/// A parameter that learns: dense, row-major, in memory that train/trainable.h owns.
struct TrainParam {
  std::string name;              ///< As in for_each_param's list.
  Shape shape;                   ///< `[out, in]` of a product, `[n]` of a vector.
  float* value = nullptr;        ///< The optimizer moves it: the weight, or the float32 master of a bf16 weight.
  std::byte* rounded = nullptr;  ///< The bf16 weight, value to nearest even; null if value itself is the weight.
  const Param* param = nullptr;  ///< The model's, which passes read.

  std::int64_t count() const { return shape.count(); }
  bool decays() const { return shape.rank() >= 2; }  ///< Weight decay applies to matrices, not to gains and biases.
};

}  // namespace vitrine
