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
//
// Cross-attention is the same sublayer, whose k and v are projections of the encoder's output (Vaswani et al. 2017).
#pragma once

#include "model/head_inputs.h"

namespace vitrine {

/// `[T, d]`: the sublayer's output, before the post-norm. It has no data if the pass needs only keys and values. `bias`
/// is the relative bias of the stack, if it has one.
Tensor attention(Pass& p, BlockSite at, const AttentionConfig& c, const AttentionParams& w, const AttentionInput& x,
                 const Tensor& bias);

}  // namespace vitrine
