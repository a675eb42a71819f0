// Products in the pair order in AVX2, FMA and F16C.
#include "kernels/vec_avx2.h"
// The vector type comes first, because everything else is written in terms of it.
#include "kernels/pairs_float-inl.h"
#include "kernels/tables.h"

namespace vitrine {

constinit const PairKernels kAvx2Pairs = kFloatPairs;

}  // namespace vitrine
