// x86-64: AVX2 and AVX-512, each with and without VNNI, and AVX-512 with BF16.
#include <cpuid.h>

#include <algorithm>
#include <chrono>

#include "kernels/pairs.h"
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

bool has_avx512_bf16() {
  constexpr unsigned kAvx512Bf16 = 1U << 5;  // of EAX, leaf 7, subleaf 1
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kAvx512Bf16) != 0;
}

const PairKernels& avx2_pairs(bool) { return kAvx2Pairs; }
const PairKernels& avx512_pairs(bool) { return kAvx512Pairs; }
const PairKernels& avx512bf16_pairs(bool transposed) {
  return pairs_are_proved() && !transposed ? kAvx512Bf16Pairs : kAvx512Pairs;
}

std::vector<Kernels> find_tables() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) return {};
  std::vector<Kernels> tables = {joined(Isa::avx2, kAvx2Kernels, kAvx2Blocks, kAvx2Quantize, avx2_pairs)};
  if (has_avx_vnni()) tables.push_back(joined(Isa::avxvnni, kAvx2Kernels, kAvxVnniBlocks, kAvx2Quantize, avx2_pairs));
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    tables.push_back(joined(Isa::avx512, kAvx512Kernels, kAvx2Blocks, kAvx512Quantize, avx512_pairs));
    if (__builtin_cpu_supports("avx512vnni")) {
      tables.push_back(joined(Isa::avx512vnni, kAvx512Kernels, kAvx512VnniBlocks, kAvx512Quantize, avx512_pairs));
      if (has_avx512_bf16()) {
        tables.push_back(joined(Isa::avx512bf16, kAvx512Kernels, kAvx512VnniBlocks, kAvx512Quantize, avx512bf16_pairs));
      }
    }
  }
  return tables;
}

/// Whether sixteen pairs are added in less time than 0.7 of that of twice sixteen floats.
bool measure_pairs() {
  using Clock = std::chrono::steady_clock;
  constexpr int kSteps = 100, kRuns = 7;
  volatile float sink = 0;
  const auto seconds = [&](float (*repeat)(int), int n) {
    const auto start = Clock::now();
    sink = repeat(n);
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  double pairs = 1, floats = 1;
  for (int i = 0; i < kRuns; ++i) {
    pairs = std::min(pairs, seconds(kAvx512Bf16Probe.repeat_pairs, kSteps));
    floats = std::min(floats, seconds(kAvx512Bf16Probe.repeat_floats, 2 * kSteps));
  }
  return pairs < 0.7 * floats;
}

}  // namespace

bool pairs_are_proved() {
  static const bool proved = has_avx512_bf16() && adds_in_pair_order(kAvx512Bf16Probe.add);
  return proved;
}

bool pairs_are_faster() {
  static const bool faster = has_avx512_bf16() && measure_pairs();
  return faster;
}

const std::vector<Kernels>& vector_kernels() {
  static const std::vector<Kernels> tables = find_tables();
  return tables;
}

std::span<const Isa> known_isas() {
  static constexpr Isa kIsas[] = {Isa::scalar, Isa::avx2, Isa::avxvnni, Isa::avx512, Isa::avx512vnni, Isa::avx512bf16};
  return kIsas;
}

}  // namespace vitrine
