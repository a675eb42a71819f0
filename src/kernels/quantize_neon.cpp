// Quantization in NEON.
#include "kernels/vec_neon.h"
// The vector type comes first, because everything else is written in terms of it.
#include "kernels/quantize_rows-inl.h"
#include "kernels/tables.h"

namespace vitrine {

constinit const QuantizeKernel kNeonQuantize = quantize;

}  // namespace vitrine
