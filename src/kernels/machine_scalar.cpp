// Architectures without vector kernels.
#include "kernels/tables.h"

namespace vitrine {

const std::vector<Kernels>& vector_kernels() {
  static const std::vector<Kernels> none;
  return none;
}

}  // namespace vitrine
