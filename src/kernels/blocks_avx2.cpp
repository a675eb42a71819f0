// Products with quantized matrices in AVX2.
#include "kernels/dot_maddubs.h"
// The vector type comes first, because everything else is written in terms of it.
#include "kernels/blocks-inl.h"
#include "kernels/tables.h"

namespace vitrine {

constinit const BlockKernels kAvx2Blocks = kBlockKernels;

}  // namespace vitrine
