// The sites that see attention head by head, on demand: what each head reads and what each head writes.
//
// They are not on the way of a token. Reading them makes copies beside the one computation; only a value that a tap has
// replaced changes what is computed.
//
// With a tape the copies that are only looked at have the gradients that they would have on the way: those of q, k or
// v go back once more through a projection and a norm of the copies, on a tape of their own. So the sum over the heads
// is the gradient of the norm's input, and looking changes no bit here either.
#pragma once

#include <memory>

#include "model/config.h"
#include "model/params.h"

namespace vitrine {

/// Copies of the stream, one for each head of q, k or v; no data where no tap wants them.
struct HeadCopies {
  Tensor rows;                     ///< `[T, n, d]`, before the norm.
  std::shared_ptr<bool> replaced;  ///< A tap has replaced them, so q, k or v is computed from them.
};

/// What attention reads: the normed stream, and for each head what taps want to see of it.
struct AttentionInput {
  Tensor normed;  ///< `[T, d]`
  HeadCopies q, k, v;
  const std::optional<NormConfig>* norm_config = nullptr;  ///< The norm that made `normed`, for the copies.
  const NormParams* norm_params = nullptr;
};

/// Shows hook_attn_in, hook_q_input, hook_k_input and hook_v_input where a tap wants them; `normed` is still to be set.
AttentionInput head_inputs(Pass& p, BlockSite at, const AttendConfig& c, const std::optional<NormConfig>& norm_config,
                           const NormParams& norm_params, const Tensor& x);

/// q, k or v `[T, n, head_dim]` of the heads' inputs: each head's rows times its own part of the weight where they are
/// replaced, else of all.
Tensor project_heads(Pass& p, BlockSite at, const LinearParams& w, const AttentionInput& in, const HeadCopies& own,
                     const Shape& shape);

/// The output projection of z `[T, H, head_dim]`, with hook_result.
Tensor project_out(Pass& p, BlockSite at, const LinearParams& wo, const Tensor& z);

}  // namespace vitrine
