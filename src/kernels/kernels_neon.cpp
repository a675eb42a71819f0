// The kernels for NEON.
#include "kernels/vec_neon.h"
// The vector type comes first, because everything else is written in terms of it.
#include "kernels/table-inl.h"
#include "kernels/tables.h"

namespace vitrine {

constinit const Kernels kNeonKernels = table_of(Isa::neon);

}  // namespace vitrine
