// Architectures without vector kernels.
#include "kernels/pairs.h"
#include "kernels/tables.h"

namespace vitrine {

const std::vector<Kernels>& vector_kernels() {
  static const std::vector<Kernels> none;
  return none;
}

bool pairs_are_faster() { return false; }
bool pairs_are_proved() { return false; }

std::span<const Isa> known_isas() {
  static constexpr Isa kIsas[] = {Isa::scalar};
  return kIsas;
}

}  // namespace vitrine
