// The on-demand sites: the inputs and outputs of single heads.
//
// The values at these sites are copies that are not on the path from tokens to logits. The forward continues with them
// only if a tap has replaced them.
//
// With a tape, copies that were only read have the gradients that they would have on the path. The gradients of q, k or
// v are propagated a second time, through the projection and the norm of the copies, on a separate tape. So the
// gradients of the heads add up to that of the norm's input, and taps that only read do not change any bit.
#pragma once

#include <memory>

#include "model/config.h"
#include "model/params.h"

namespace vitrine {

/// Copies of the stream, one for each head of q, k or v. They have no data if no tap wants them.
struct HeadCopies {
  Tensor rows;                     ///< `[T, n, d]`, before the norm.
  std::shared_ptr<bool> replaced;  ///< Whether a tap has replaced them, so that q, k or v is computed from them.
};

/// The input of attention: the normed stream, and the copies that taps want.
struct AttentionInput {
  Tensor normed;   ///< `[T, d]`
  Tensor encoded;  ///< `[S, d_encoder]`, for cross-attention: the encoder's output; no data if caches hold K and V.
  HeadCopies q, k, v;
  const std::optional<NormConfig>* norm_config = nullptr;  ///< The norm that made `normed`, for the copies.
  const NormParams* norm_params = nullptr;
  const RopeTables* rope = nullptr;  ///< If the config has RoPE.
};

/// Taps hook_attn_in, hook_q_input, hook_k_input and hook_v_input. The caller sets `normed`.
AttentionInput head_inputs(Pass& p, BlockSite at, const AttendConfig& c, const std::optional<NormConfig>& norm_config,
                           const NormParams& norm_params, const Tensor& x);

/// q, k or v `[T, n, head_dim]`: the projection of `rows` (`in.normed` or `in.encoded`), or, if the copies `own` are
/// replaced, of each head's copy with its part of the weight. `added` is the site of what adapters add.
Tensor project_heads(Pass& p, BlockSite at, Site added, const LinearParams& w, const Tensor& rows,
                     const AttentionInput& in, const HeadCopies& own, const Shape& shape);

/// The output projection of z `[T, H, head_dim]`. Taps hook_result.
Tensor project_out(Pass& p, BlockSite at, const LinearParams& wo, const Tensor& z);

}  // namespace vitrine
