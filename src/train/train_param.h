// A parameter in training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tensor/tensor.h"

namespace vitrine {

/// Dense, row-major, in memory of its own (train/trainable.h owns it).
struct TrainParam {
  std::string name;              ///< As in for_each_param's list.
  Shape shape;                   ///< `[out, in]` of a product, `[n]` of a vector.
  float* value = nullptr;        ///< What the optimizer moves: the weight, or the float32 master of a bf16 weight.
  std::byte* rounded = nullptr;  ///< The bf16 weight, value to nearest even; null where the weight is value itself.

  std::int64_t count() const { return shape.count(); }
  bool decays() const { return shape.rank() >= 2; }  ///< Weight decay moves matrices; gains and biases it leaves alone.
};

}  // namespace vitrine
