// The tables of kernels behind kernels_for(), and the choice by name; for kernels.cpp and the tests of this room.
#pragma once

#include <string_view>

#include "kernels/kernels.h"

namespace vitrine {

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;

/// The table called scalar, avx2 or avx512, as VITRINE_ISA names it; throws as default_kernels() does.
const Kernels& kernels_named(std::string_view name);

}  // namespace vitrine
