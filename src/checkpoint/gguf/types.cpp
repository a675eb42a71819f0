#include "checkpoint/gguf/types.h"

#include "base/error.h"

namespace vitrine {
namespace {

// Source: ggml-org/ggml, include/ggml.h (enum ggml_type); ggml-org/llama.cpp, include/llama.h (enum llama_ftype).
constexpr GgmlType kTypes[] = {
    {0, "F32", DType::f32, 0},
    {1, "F16", DType::f16, 1},
    {2, "Q4_0", DType::q4_0, 2},
    {3, "Q4_1", DType::q4_1, 3},
    {6, "Q5_0", DType::q5_0, 8},
    {7, "Q5_1", DType::q5_1, 9},
    {8, "Q8_0", DType::q8_0, 7},
    {9, "Q8_1", {}},
    {10, "Q2_K", DType::q2_k, 10},
    {11, "Q3_K", DType::q3_k, 12},
    {12, "Q4_K", DType::q4_k, 15},
    {13, "Q5_K", DType::q5_k, 17},
    {14, "Q6_K", DType::q6_k, 18},
    {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},
    {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},
    {19, "IQ1_S", {}},
    {20, "IQ4_NL", DType::iq4_nl, 25},
    {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},
    {23, "IQ4_XS", DType::iq4_xs, 30},
    {24, "I8", {}},
    {25, "I16", {}},
    {26, "I32", {}},
    {27, "I64", {}},
    {28, "F64", {}},
    {29, "IQ1_M", {}},
    {30, "BF16", DType::bf16, 32},
    {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},
    {39, "MXFP4", DType::mxfp4, 38},
    {40, "NVFP4", {}},
    {41, "Q1_0", {}},
    {42, "Q2_0", {}},
};

}  // namespace

const GgmlType* find_ggml_type(std::uint32_t number) {
  for (const GgmlType& type : kTypes) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

const GgmlType& ggml_type_of(DType dtype) {
  for (const GgmlType& type : kTypes) {
    if (type.dtype == dtype) return type;
  }
  throw InternalError("gguf", "no type of GGUF for {}", name_of(dtype));
}

std::string_view shown_name(DType dtype) {
  if (dtype == DType::f8_e4m3) return "F8_E4M3";
  if (has_groups(dtype)) {
    constexpr std::string_view kNames[] = {"INT2", "INT3", "INT4", "INT8", "NF4", "FP4"};
    return kNames[static_cast<std::size_t>(dtype) - static_cast<std::size_t>(DType::int2)];
  }
  return ggml_type_of(dtype == DType::mxfp4_pairs ? DType::mxfp4 : dtype).name;
}

}  // namespace vitrine
