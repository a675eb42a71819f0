// The kernels for AVX-512 F, BW, DQ and VL.
#include "kernels/vec_avx512.h"
// The vector type comes first, because everything else is written in terms of it.
#include "kernels/table-inl.h"
#include "kernels/tables.h"

namespace vitrine {

constinit const Kernels kAvx512Kernels = table_of(Isa::avx512);

}  // namespace vitrine
