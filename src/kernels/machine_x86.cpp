// x86-64: AVX2 and AVX-512, each with and without VNNI.
#include <cpuid.h>

#include "kernels/tables.h"

namespace vitrine {
namespace {

/// Clang's __builtin_cpu_supports does not know these names.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
bool has_avx_vnni() {
  constexpr unsigned kAvxVnni = 1U << 4;  // of EAX, leaf 7, subleaf 1
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kAvxVnni) != 0;
}

std::vector<Kernels> find_tables() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) return {};
  std::vector<Kernels> tables = {joined(Isa::avx2, kAvx2Kernels, kAvx2Blocks, kAvx2Quantize)};
  if (has_avx_vnni()) tables.push_back(joined(Isa::avxvnni, kAvx2Kernels, kAvxVnniBlocks, kAvx2Quantize));
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    tables.push_back(joined(Isa::avx512, kAvx512Kernels, kAvx2Blocks, kAvx512Quantize));
    if (__builtin_cpu_supports("avx512vnni")) {
      tables.push_back(joined(Isa::avx512vnni, kAvx512Kernels, kAvx512VnniBlocks, kAvx512Quantize));
    }
  }
  return tables;
}

}  // namespace

const std::vector<Kernels>& vector_kernels() {
  static const std::vector<Kernels> tables = find_tables();
  return tables;
}

}  // namespace vitrine
