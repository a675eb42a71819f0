// From the type of a block format to the format as an argument.
#pragma once

#include "quant/parts-inl.h"
#include "tensor/dtype.h"

namespace vitrine {
namespace {

/// Calls function(Format<dtype>{}) for a block format that is multiplied as integers.
template <class Function>
void with_format(DType dtype, Function function) {
  switch (dtype) {
    case DType::q8_0:
      return function(Format<DType::q8_0>{});
    case DType::q4_0:
      return function(Format<DType::q4_0>{});
    case DType::q4_1:
      return function(Format<DType::q4_1>{});
    case DType::q5_0:
      return function(Format<DType::q5_0>{});
    case DType::q5_1:
      return function(Format<DType::q5_1>{});
    case DType::q2_k:
      return function(Format<DType::q2_k>{});
    case DType::q3_k:
      return function(Format<DType::q3_k>{});
    case DType::q4_k:
      return function(Format<DType::q4_k>{});
    case DType::q5_k:
      return function(Format<DType::q5_k>{});
    case DType::q6_k:
      return function(Format<DType::q6_k>{});
    case DType::iq4_nl:
      return function(Format<DType::iq4_nl>{});
    case DType::iq4_xs:
      return function(Format<DType::iq4_xs>{});
    case DType::mxfp4:
      return function(Format<DType::mxfp4>{});
    case DType::mxfp4_pairs:
      return function(Format<DType::mxfp4_pairs>{});
    case DType::int2:
      return function(Format<DType::int2>{});
    case DType::int3:
      return function(Format<DType::int3>{});
    case DType::int4:
      return function(Format<DType::int4>{});
    case DType::int8:
      return function(Format<DType::int8>{});
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8_e4m3:
    case DType::nf4:
    case DType::fp4:
      return;  // not multiplied as integers
  }
}

}  // namespace
}  // namespace vitrine
