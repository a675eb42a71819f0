// Chooses a kernel table that this machine can run.
#include "kernels/kernels.h"

#include <cstdlib>

#include "base/error.h"
#include "kernels/tables.h"

namespace vitrine {
namespace {

constexpr Isa kIsas[] = {Isa::scalar, Isa::avx2, Isa::avxvnni, Isa::avx512, Isa::avx512vnni, Isa::avx512bf16};

std::string_view instructions_of(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      break;
    case Isa::avx2:
      return "AVX2 with FMA and F16C";
    case Isa::avxvnni:
      return "AVX-VNNI";
    case Isa::avx512:
      return "AVX-512 (F, BW, DQ, VL)";
    case Isa::avx512vnni:
      return "AVX-512 VNNI";
    case Isa::avx512bf16:
      return "AVX-512 BF16";
  }
  return "known instructions";
}

}  // namespace

Kernels joined(Isa isa, const Kernels& kernels, const BlockKernels& blocks, QuantizeKernel quantize,
               ChoosePairs pairs) {
  Kernels table = kernels;
  table.isa = isa;
  table.blocks = blocks;
  table.quantize = quantize;
  table.pairs = pairs;
  return table;
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas = {Isa::scalar};
  for (const Kernels& table : vector_kernels()) isas.push_back(table.isa);
  return isas;
}

const Kernels& kernels_for(Isa isa) {
  static const Kernels scalar = joined(Isa::scalar, kScalarKernels, kScalarBlocks, kScalarQuantize,
                                       [](bool) -> const PairKernels& { return kScalarPairs; });
  if (isa == Isa::scalar) return scalar;
  for (const Kernels& table : vector_kernels()) {
    if (table.isa == isa) return table;
  }
  throw Unsupported("VITRINE_ISA", "this machine has no {}", instructions_of(isa));
}

Isa fastest_isa() {
  std::vector<Isa> isas = available_isas();
  if (isas.back() == Isa::avx512bf16 && !pairs_are_faster()) isas.pop_back();
  return isas.back();
}

const Kernels& kernels_named(std::string_view name) {
  for (const Isa isa : kIsas) {
    if (name == name_of(isa)) return kernels_for(isa);
  }
  throw BadInput("VITRINE_ISA", "expected scalar, avx2, avxvnni, avx512, avx512vnni or avx512bf16, got \"{}\"", name);
}

const Kernels& default_kernels() {
  static const Kernels& chosen = [&]() -> const Kernels& {
    const char* name = std::getenv("VITRINE_ISA");
    return name != nullptr ? kernels_named(name) : kernels_for(fastest_isa());
  }();
  return chosen;
}

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::avx2:
      return "avx2";
    case Isa::avxvnni:
      return "avxvnni";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512vnni:
      return "avx512vnni";
    case Isa::avx512bf16:
      return "avx512bf16";
  }
  return "unknown";
}

}  // namespace vitrine
