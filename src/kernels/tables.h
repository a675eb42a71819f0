// The tables of kernels from which kernels_for() chooses, and the choice by name; for this module and its tests.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"

namespace vitrine {

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;  // x86-64 only, likewise all with AVX in their names
extern const Kernels kAvx512Kernels;
extern const Kernels kNeonKernels;  // 64-bit ARM only, likewise all with this name

extern const BlockKernels kScalarBlocks;
extern const BlockKernels kAvx2Blocks;
extern const BlockKernels kAvxVnniBlocks;
extern const BlockKernels kAvx512VnniBlocks;
extern const BlockKernels kNeonBlocks;
extern const BlockKernels kNeonDotBlocks;

extern const QuantizeKernel kScalarQuantize;
extern const QuantizeKernel kAvx2Quantize;
extern const QuantizeKernel kAvx512Quantize;
extern const QuantizeKernel kNeonQuantize;

extern const PairKernels kScalarPairs;
extern const PairKernels kAvx2Pairs;
extern const PairKernels kAvx512Pairs;
extern const PairKernels kAvx512Bf16Pairs;  // of a row-major matrix only

using ChoosePairs = const PairKernels& (*)(bool transposed);
/// `kernels` with `blocks`, `quantize` and `pairs`, as the table of `isa`.
Kernels joined(Isa isa, const Kernels& kernels, const BlockKernels& blocks, QuantizeKernel quantize, ChoosePairs pairs);

/// The vector tables that this machine can run, slowest first. Defined in one source file per architecture:
/// machine_x86.cpp, machine_aarch64.cpp or machine_scalar.cpp.
const std::vector<Kernels>& vector_kernels();
/// The levels of this architecture, slowest first, whether this machine has them or not. Defined likewise.
std::span<const Isa> known_isas();

/// Whether this machine adds pairs of bfloat16 numbers faster than floats. Measured, in some microseconds, by the first
/// call. False without the instruction. Defined like vector_kernels().
bool pairs_are_faster();
/// The level that default_kernels() takes by itself.
Isa fastest_isa();

/// The table of this name (name_of(Isa)), as VITRINE_ISA gives it; throws as default_kernels() does.
const Kernels& kernels_named(std::string_view name);

}  // namespace vitrine
