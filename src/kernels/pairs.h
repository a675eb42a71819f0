// The definition of one addition in the pair order, and the proof that an instruction computes it; for this module and
// its tests.
#pragma once

#include <cstdint>
#include <vector>

namespace vitrine {

/// a · b + sum, where a and b are bfloat16 numbers, as kernels.h defines an addition in the pair order.
float add_product(float a, float b, float sum);

/// Sixteen lanes: the accumulators, and a pair of each operand in each lane, the number with the lower index in the
/// lower half.
struct PairLanes {
  float sum[16];
  std::uint32_t a[16], b[16];
};

/// sum[l] += the products of the pairs of lane l.
using AddPairs = void (*)(const PairLanes& lanes, float* sum);
/// By the definition.
void add_pairs(const PairLanes& lanes, float* sum);
/// Some thousand pairs on which the definition differs from what similar instructions compute: the other order, one
/// rounding for both products, operands or results that are not flushed, or flushed before they are rounded.
std::vector<PairLanes> telling_pairs();
/// Whether `add` gives the bits of the definition for all of them; any NaN is equal to any other.
bool adds_in_pair_order(AddPairs add);

/// Whether VDPBF16PS adds in the pair order; tried by the first call. False without the instruction. Defined like
/// vector_kernels().
bool pairs_are_proved();

/// An instruction that adds pairs, to try it and to time it.
struct PairProbe {
  AddPairs add;
  /// Adds n times to each of many accumulators, as fast as the processor can: products of sixteen pairs by the
  /// instruction, or products of sixteen floats. Returns a sum of the accumulators.
  float (*repeat_pairs)(int n);
  float (*repeat_floats)(int n);
};
extern const PairProbe kAvx512Bf16Probe;  // x86-64 only

}  // namespace vitrine
