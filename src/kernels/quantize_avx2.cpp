// Quantization in AVX2 with FMA and F16C.
#include "kernels/vec_avx2.h"
// The vector type comes first, because everything else is written in terms of it.
#include "kernels/quantize_rows-inl.h"
#include "kernels/tables.h"

namespace vitrine {

constinit const QuantizeKernel kAvx2Quantize = quantize;

}  // namespace vitrine
