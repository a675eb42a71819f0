// Architectures without vector kernels.
#include "kernels/tables.h"

namespace vitrine {

std::vector<const Kernels*> vector_kernels() { return {}; }

}  // namespace vitrine
