// How quantized weights are multiplied.
#pragma once

#include <cstdint>

namespace vitrine {

/// How quantized weights are multiplied by activations. Weights of other types are always multiplied as float32.
enum class Compute : std::uint8_t {
  automatic,  ///< As integers, with the activations rounded to 8 bits in blocks of 32. Gradients use float32.
  f32         ///< As float32: the product with the dequantized weight.
};

}  // namespace vitrine
