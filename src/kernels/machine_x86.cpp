// x86-64: AVX2 and AVX-512.
#include <cpuid.h>

#include "kernels/tables.h"

namespace vitrine {
namespace {

/// Clang's __builtin_cpu_supports does not know this name.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

std::vector<const Kernels*> vector_kernels() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) return {};
  std::vector<const Kernels*> tables = {&kAvx2Kernels};
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    tables.push_back(&kAvx512Kernels);
  }
  return tables;
}

}  // namespace vitrine
