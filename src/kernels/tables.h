// The tables of kernels from which kernels_for() chooses, and the choice by name; for this module and its tests.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/kernels.h"

namespace vitrine {

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;  // x86-64 only, likewise all below
extern const Kernels kAvx512Kernels;

extern const BlockKernels kScalarBlocks;
extern const BlockKernels kAvx2Blocks;
extern const BlockKernels kAvxVnniBlocks;
extern const BlockKernels kAvx512VnniBlocks;

extern const QuantizeKernel kScalarQuantize;
extern const QuantizeKernel kAvx2Quantize;
extern const QuantizeKernel kAvx512Quantize;

extern const PairKernels kScalarPairs;
extern const PairKernels kAvx2Pairs;
extern const PairKernels kAvx512Pairs;
extern const PairKernels kAvx512Bf16Pairs;  // of a row-major matrix only

using ChoosePairs = const PairKernels& (*)(bool transposed);
/// `kernels` with `blocks`, `quantize` and `pairs`, as the table of `isa`.
Kernels joined(Isa isa, const Kernels& kernels, const BlockKernels& blocks, QuantizeKernel quantize, ChoosePairs pairs);

/// The vector tables that this machine can run, slowest first. Defined in one source file per architecture:
/// machine_x86.cpp or machine_scalar.cpp.
const std::vector<Kernels>& vector_kernels();

/// Whether this machine adds pairs of bfloat16 numbers faster than floats. Measured, in some microseconds, by the first
/// call. False without the instruction. Defined like vector_kernels().
bool pairs_are_faster();
/// The level that default_kernels() takes by itself.
Isa fastest_isa();

/// The table called scalar, avx2, avxvnni, avx512, avx512vnni or avx512bf16, as VITRINE_ISA names it; throws as
/// default_kernels() does.
const Kernels& kernels_named(std::string_view name);

}  // namespace vitrine
