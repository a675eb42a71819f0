// The kernels in plain C++, the oracle of the others.
#include "kernels/vec_scalar.h"
// The vector type comes first: everything else is written over it.
#include "kernels/table-inl.h"
#include "kernels/tables.h"

namespace vitrine {

constinit const Kernels kScalarKernels = table_of(Isa::scalar);

}  // namespace vitrine
