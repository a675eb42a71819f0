// The table of all kernels but `blocks`, `quantize` and `pairs` for the vector type whose header is included before
// this one. All names have internal linkage: the linker must never pick code for a newer CPU to run on an older one.
#pragma once

#include "kernels/conversions-inl.h"
#include "kernels/dropout-inl.h"
#include "kernels/kernels.h"
#include "kernels/kv-inl.h"
#include "kernels/kv_round-inl.h"
#include "kernels/math-inl.h"
#include "kernels/matmul-inl.h"
#include "kernels/optimizer-inl.h"
#include "kernels/rows-inl.h"
#include "kernels/slopes-inl.h"
#include "kernels/state_scan-inl.h"

namespace vitrine {
namespace {

constexpr Kernels table_of(Isa isa) {
  return {
      .isa = isa,
      .matmul = matmul,
      .matmul_packed = matmul_packed,
      .pack = pack,
      .packed_rows = kPackedTokens,
      .pack_above = kPackAbove,
      .weighted_rows = weighted_rows,
      .sum = sum,
      .sum_squares = sum_squares,
      .max = max,
      .exp_sum = exp_sum,
      .all_finite = all_finite,
      .add = add,
      .multiply = multiply,
      .scale = scale,
      .normalize = normalize,
      .affine = affine,
      .softcap = softcap,
      .activate = activate,
      .slope = slope,
      .bend = bend,
      .bend_slope = bend_slope,
      .sigmoid = sigmoid,
      .softplus = softplus,
      .dot = dot,
      .multiply_add = multiply_add,
      .add_scaled = add_scaled,
      .sin_cos = sin_cos,
      .rotate_halves = rotate_halves,
      .rotate_interleaved = rotate_interleaved,
      .widen = widen,
      .widen_f8 = widen_f8,
      .narrow = narrow,
      .adamw = adamw,
      .sgd = sgd,
      .kv = {.rotate = rotate, .round = round_kv, .score = score, .mix = mix},
      .states = {.scan = scan_state, .backward = scan_state_backward},
      .blocks = {},         // blocks-inl.h
      .quantize = nullptr,  // quantize_rows-inl.h
      .pairs = nullptr,     // machine_*.cpp
      .dropout_factors = dropout_factors,
  };
}

}  // namespace
}  // namespace vitrine
