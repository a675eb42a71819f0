// Quantization in plain C++, the reference for the others.
#include "kernels/vec_scalar.h"
// The vector type comes first, because everything else is written in terms of it.
#include "kernels/quantize_rows-inl.h"
#include "kernels/tables.h"

namespace vitrine {

constinit const QuantizeKernel kScalarQuantize = quantize;

}  // namespace vitrine
