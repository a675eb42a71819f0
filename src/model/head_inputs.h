// The sites that see attention head by head, on demand: what each head reads and what each head writes.
//
// They are not on the way of a token. Reading them makes copies beside the one computation; only a value that a tap has
// replaced changes what is computed.
//
// With a tape the copies that are only looked at have the gradients that they would have on the way: those of q, k or
// v go back once more through a projection and a norm of the copies, on a tape of their own. So the sum over the heads
// is the gradient of the norm's input, and looking changes no bit here either.
#pragma once

#include <functional>

#include "model/config.h"
#include "model/params.h"

namespace vitrine {

/// What the heads of q, k or v read, where a tap looks at it; no data where none does, or where it does not matter.
struct HeadInput {
  Tensor normed;  ///< `[T, n, d]`: takes the place of the normed stream; a tap has replaced what it is made of.
  Tensor seen;    ///< `[T, n, d]`: only looked at, before the norm, on the tape.
};

/// What attention reads: the normed stream, and what stands beside it head by head. (Copies pass the norm on their own,
/// unseen by its taps.)
struct HeadInputs {
  Tensor all;  ///< `[T, d]`
  HeadInput q, k, v;
  std::function<Tensor(const Tensor&)> norm;  ///< Of copies `[T, n, d]`.
};

/// The norm before attention, with hook_attn_in, hook_q_input, hook_k_input and hook_v_input before it.
HeadInputs head_inputs(Pass& p, BlockSite at, const AttendConfig& c, const std::optional<NormConfig>& norm_config,
                       const NormParams& norm_params, const Tensor& x);

/// q, k or v `[T, n, head_dim]` of the heads' inputs: each head's rows times its own part of the weight where they are
/// replaced, else of all.
Tensor project_heads(Pass& p, const LinearParams& w, const HeadInputs& in, const HeadInput& own, const Shape& shape);

/// The output projection of z `[T, H, head_dim]`, with hook_result.
Tensor project_out(Pass& p, BlockSite at, const LinearParams& wo, const Tensor& z);

}  // namespace vitrine
