// The tables of kernels from which kernels_for() chooses, and the choice by name; for this module and its tests.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/kernels.h"

namespace vitrine {

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;    // x86-64 only
extern const Kernels kAvx512Kernels;  // x86-64 only

/// The vector tables that this machine can run, slowest first. Defined in one source file per architecture:
/// machine_x86.cpp or machine_scalar.cpp.
std::vector<const Kernels*> vector_kernels();

/// The table called scalar, avx2 or avx512, as VITRINE_ISA names it; throws as default_kernels() does.
const Kernels& kernels_named(std::string_view name);

}  // namespace vitrine
