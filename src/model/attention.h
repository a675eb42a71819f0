// The attention sublayer: projections, RoPE, attention, output projection.
//
//               x [T, d]
//        ┌─────────┼─────────┐
//       wq         wk        wv          + bias
//   q [T,H,dh]  k [T,K,dh]  v [T,K,dh]
//     (norm)     (norm)      │
//      rope       rope       │
//        └────── attend ─────┘  ◀──▶ KV cache
//             z [T, H, dh]
//                 wo                     + bias
//             out [T, d]
#pragma once

#include "model/head_inputs.h"

namespace vitrine {

/// `[T, d]`: the sublayer's output, before the post-norm. It has no data if the pass needs only keys and values.
Tensor attention(Pass& p, BlockSite at, const AttentionConfig& c, const AttentionParams& w, const AttentionInput& x);

}  // namespace vitrine
