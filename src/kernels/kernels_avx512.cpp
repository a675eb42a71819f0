// The kernels for AVX-512 F, BW, DQ and VL.
#include "kernels/vec_avx512.h"
// The vector type comes first: everything else is written over it.
#include "kernels/table-inl.h"
#include "kernels/tables.h"

namespace vitrine {

constinit const Kernels kAvx512Kernels = table_of(Isa::avx512);

}  // namespace vitrine
