// The kernels for AVX2 with FMA and F16C.
#include "kernels/vec_avx2.h"
// The vector type comes first, because everything else is written in terms of it.
#include "kernels/table-inl.h"
#include "kernels/tables.h"

namespace vitrine {

constinit const Kernels kAvx2Kernels = table_of(Isa::avx2);

}  // namespace vitrine
