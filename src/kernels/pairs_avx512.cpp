// Products in the pair order in AVX-512 F, BW, DQ and VL.
#include "kernels/vec_avx512.h"
// The vector type comes first, because everything else is written in terms of it.
#include "kernels/pairs_float-inl.h"
#include "kernels/tables.h"

namespace vitrine {

constinit const PairKernels kAvx512Pairs = kFloatPairs;

}  // namespace vitrine
