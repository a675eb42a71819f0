// 64-bit ARM: NEON, which every processor has, with and without SDOT.
#include <sys/auxv.h>

#include "kernels/pairs.h"
#include "kernels/tables.h"

namespace vitrine {
namespace {

constexpr unsigned long kDotProd = 1UL << 20;  // HWCAP_ASIMDDP

const PairKernels& scalar_pairs(bool) { return kScalarPairs; }

std::vector<Kernels> find_tables() {
  std::vector<Kernels> tables = {joined(Isa::neon, kNeonKernels, kNeonBlocks, kNeonQuantize, scalar_pairs)};
  if ((::getauxval(AT_HWCAP) & kDotProd) != 0) {
    tables.push_back(joined(Isa::neondot, kNeonKernels, kNeonDotBlocks, kNeonQuantize, scalar_pairs));
  }
  return tables;
}

}  // namespace

const std::vector<Kernels>& vector_kernels() {
  static const std::vector<Kernels> tables = find_tables();
  return tables;
}

bool pairs_are_faster() { return false; }
bool pairs_are_proved() { return false; }

std::span<const Isa> known_isas() {
  static constexpr Isa kIsas[] = {Isa::scalar, Isa::neon, Isa::neondot};
  return kIsas;
}

}  // namespace vitrine
