// The kernels in plain C++, the reference for the others.
#include "kernels/vec_scalar.h"
// The vector type comes first, because everything else is written in terms of it.
#include "kernels/table-inl.h"
#include "kernels/tables.h"

namespace vitrine {

constinit const Kernels kScalarKernels = table_of(Isa::scalar);

}  // namespace vitrine
