// Quantization in AVX-512.
#include "kernels/vec_avx512.h"
// The vector type comes first, because everything else is written in terms of it.
#include "kernels/quantize_rows-inl.h"
#include "kernels/tables.h"

namespace vitrine {

constinit const QuantizeKernel kAvx512Quantize = quantize;

}  // namespace vitrine
