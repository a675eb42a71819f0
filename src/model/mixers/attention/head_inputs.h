// The on-demand sites: the inputs and outputs of single heads.
//
// The values at these sites are copies that are not on the path from tokens to logits. The forward continues with them
// only if a tap has replaced them.
//
// With a tape, copies that were only read have the gradients that they would have on the path. The gradients of q, k or
// v are propagated a second time, through the projection and the norm of the copies, on a separate tape. So the
// gradients of the heads add up to that of the norm's input, and taps that only read do not change any bit.
#pragma once

#include "model/mixers/attention/config.h"

namespace vitrine {

/// q, k or v `[T, n, head_dim]`: the projection of `rows` (`in.normed` or `in.encoded`), or, if the copies `own` are
/// replaced, of each head's copy with its part of the weight. `added` is the site of what adapters add.
Tensor project_heads(Pass& p, BlockSite at, Site added, const LinearParams& w, const Tensor& rows,
                     const SublayerInput& in, const HeadCopies& own, const Shape& shape);

/// The output projection of z `[T, H, head_dim]`. Taps hook_result.
Tensor project_out(Pass& p, BlockSite at, const LinearParams& wo, const Tensor& z);

}  // namespace vitrine
