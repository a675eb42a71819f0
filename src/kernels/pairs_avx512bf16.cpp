// Products in the pair order in AVX512_BF16.
#include "kernels/vec_avx512.h"
// The vector type comes first, because everything else is written in terms of it.
#include "kernels/pair_step_dot.h"
// A step comes before the products.
#include "kernels/pairs-inl.h"
#include "kernels/pairs.h"
#include "kernels/tables.h"

namespace vitrine {
namespace {

/// Calls add(accumulator) n times for each of so many accumulators that the latency of an addition is hidden.
template <class Add>
float repeat(int n, Add add) {
  constexpr int kChains = 24;
  Vec sum[kChains];
  unrolled<kChains>([&](auto i) { sum[i] = broadcast(static_cast<float>(i)); });
  for (int step = 0; step < n; ++step) {
    unrolled<kChains>([&](auto i) { sum[i] = add(sum[i]); });
  }
  unrolled<kChains - 1>([&](auto i) { sum[i + 1] = sum[i + 1] + sum[i]; });
  return sum_lanes(sum[kChains - 1]);
}

void add_by_instruction(const PairLanes& lanes, float* sum) {
  const auto a = reinterpret_cast<__m512bh>(_mm512_loadu_si512(lanes.a));
  const auto b = reinterpret_cast<__m512bh>(_mm512_loadu_si512(lanes.b));
  _mm512_storeu_ps(sum, _mm512_dpbf16_ps(_mm512_loadu_ps(lanes.sum), a, b));
}

float repeat_pairs(int n) {
  const auto ones = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3F803F80));
  return repeat(n, [&](Vec sum) { return Vec{_mm512_dpbf16_ps(sum.v, ones, ones)}; });
}

float repeat_floats(int n) {
  const Vec ones = broadcast(1.0f);
  return repeat(n, [&](Vec sum) { return fma(ones, ones, sum); });
}

}  // namespace

constinit const PairKernels kAvx512Bf16Pairs = {
    .by_instruction = true,
    .group_floats = Step<kPairs>::kXFloats,
    .round = round_pairs,
    .matmul = matmul_pairs,
    .matmul_packed = nullptr,
    .pack_above = {.f32 = kNeverPack, .half = kNeverPack, .transposed = kNeverPack},
};

constinit const PairProbe kAvx512Bf16Probe = {add_by_instruction, repeat_pairs, repeat_floats};

}  // namespace vitrine
