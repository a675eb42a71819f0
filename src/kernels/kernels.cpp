// Chooses a kernel table that this machine can run.
#include "kernels/kernels.h"

#include <fmt/ranges.h>

#include <cstdlib>

#include "base/error.h"
#include "kernels/tables.h"

namespace vitrine {
namespace {

constexpr Isa kLastIsa = Isa::neondot;

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
    case Isa::neon:
      return "NEON";
    case Isa::neondot:
      return "FEAT_DotProd";
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
  for (int i = 0; i <= static_cast<int>(kLastIsa); ++i) {
    const auto isa = static_cast<Isa>(i);
    if (name == name_of(isa)) return kernels_for(isa);
  }
  std::vector<std::string_view> names;
  for (const Isa isa : known_isas()) names.push_back(name_of(isa));
  throw BadInput("VITRINE_ISA", "expected {}, got \"{}\"", fmt::join(names, ", "), name);
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
    case Isa::neon:
      return "neon";
    case Isa::neondot:
      return "neondot";
  }
  return "unknown";
}

}  // namespace vitrine
