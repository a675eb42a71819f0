// How weights are multiplied.
#pragma once

#include <cstdint>

namespace vitrine {

/// How weights are multiplied by activations. What a member does not name is multiplied as float32.
enum class Compute : std::uint8_t {
  automatic,  ///< As stored: quantized weights as with `int8`, bfloat16 weights as with `bf16`.
  f32,        ///< As float32: the product with the dequantized weight. Gradients are always computed so.
  int8,       ///< Quantized weights as integers, with the activations rounded to 8 bits in blocks of 32.
  bf16  ///< bfloat16 weights by activations rounded to bfloat16, in the pair order; quantized ones as with `int8`.
};

}  // namespace vitrine
