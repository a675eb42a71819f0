// How weights are multiplied.
#pragma once

#include <cstdint>

namespace vitrine {

/// How weights are multiplied by activations. What a member does not name is multiplied as float32.
enum class Compute : std::uint8_t {
  automatic,  ///< Quantized weights as integers, with the activations rounded to 8 bits in blocks of 32.
  f32,        ///< As float32: the product with the dequantized weight. Gradients are always computed so.
  bf16        ///< bfloat16 weights by activations rounded to bfloat16, in the pair order; quantized ones as automatic.
};

}  // namespace vitrine
