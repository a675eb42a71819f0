// Products with quantized matrices in NEON with SDOT.
#include "kernels/dot_neondot.h"
// The vector type comes first, because everything else is written in terms of it.
#include "kernels/pair_of_floats.h"
// The integers of a part come second.
#include "kernels/blocks-inl.h"
#include "kernels/tables.h"

namespace vitrine {

constinit const BlockKernels kNeonDotBlocks = kBlockKernels;

}  // namespace vitrine
