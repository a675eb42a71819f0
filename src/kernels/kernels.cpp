// Chooses the table of kernels that this machine can run.
#include "kernels/kernels.h"

#include <cpuid.h>

#include <cstdlib>

#include "base/error.h"
#include "kernels/tables.h"

namespace vitrine {
namespace {

/// Clang's __builtin_cpu_supports does not know this name.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool machine_has(Isa isa) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  switch (isa) {
    case Isa::scalar:
      return true;
    case Isa::avx2:
      return avx2;
    case Isa::avx512:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
  return false;
}

std::string_view instructions_of(Isa isa) {
  return isa == Isa::avx512 ? "AVX-512 (F, BW, DQ, VL)" : "AVX2 with FMA and F16C";
}

}  // namespace

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (machine_has(isa)) isas.push_back(isa);
  }
  return isas;
}

const Kernels& kernels_for(Isa isa) {
  if (!machine_has(isa)) {
    throw Unsupported("VITRINE_ISA", "this machine has no {}", instructions_of(isa));
  }
  switch (isa) {
    case Isa::scalar:
      return kScalarKernels;
    case Isa::avx2:
      return kAvx2Kernels;
    case Isa::avx512:
      return kAvx512Kernels;
  }
  throw InternalError("kernels", "no table for instruction set {}", static_cast<int>(isa));
}

const Kernels& kernels_named(std::string_view name) {
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (name == name_of(isa)) return kernels_for(isa);
  }
  throw BadInput("VITRINE_ISA", "expected scalar, avx2 or avx512, got \"{}\"", name);
}

const Kernels& default_kernels() {
  static const Kernels& chosen = [&]() -> const Kernels& {
    const char* name = std::getenv("VITRINE_ISA");
    return name != nullptr ? kernels_named(name) : kernels_for(available_isas().back());
  }();
  return chosen;
}

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "unknown";
}

}  // namespace vitrine
