// The sites that see attention head by head, on demand: what each head reads and what each head writes.
//
// They are not on the way of a token. Reading them makes copies beside the one computation; only a value that a tap has
// replaced changes what is computed.
#pragma once

#include "model/config.h"
#include "model/params.h"

namespace vitrine {

/// What attention reads: the normed stream, and, only where a tap has replaced one of the per-head copies of the stream
/// before the norm, the normed copies that take its place. (They pass the norm on their own, unseen by its taps.)
struct HeadInputs {
  Tensor all;  ///< `[T, d]`
  Tensor q;    ///< `[T, H, d]`, or no data
  Tensor k;    ///< `[T, K, d]`, or no data
  Tensor v;    ///< `[T, K, d]`, or no data
};

/// The norm before attention, with hook_attn_in, hook_q_input, hook_k_input and hook_v_input before it.
HeadInputs head_inputs(Pass& p, BlockSite at, const AttendConfig& c, const std::optional<NormConfig>& norm_config,
                       const NormParams& norm_params, const Tensor& x);

/// q, k or v `[T, n, head_dim]` from `by_head` `[T, n, d]`: each head's rows times its own part of the weight; from
/// `all` where there is no such split.
Tensor project_heads(Pass& p, const LinearParams& w, const Tensor& all, const Tensor& by_head, const Shape& shape);

/// The output projection of z `[T, H, head_dim]`, with hook_result.
Tensor project_out(Pass& p, BlockSite at, const LinearParams& wo, const Tensor& z);

}  // namespace vitrine
