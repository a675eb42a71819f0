// One layer. A Transformer's: attention, in a decoder that reads a source cross-attention, and FFN, each added to the
// residual stream.
//
//   x ──┬── ln1 ── attention ── ln1_post ──(+)──┬── ln2 ── ffn ── ln2_post ──(+)──▶
//       └───────────────────────────────────┘   └────────────────────────────┘
//   resid_pre                  attn_out    resid_mid             mlp_out   resid_post
//
// The sums may be normalized, too (ln1 and ln2 after the sums: Vaswani et al. 2017, BERT):
//
//   x ──┬── attention ──(+)── ln1 ──┬── ffn ──(+)── ln2 ──▶
//       └────────────────┘          └──────────┘
//                   resid_mid   normalized_resid_mid   resid_post   normalized_resid_post
//
// Cross-attention, between the two, has the same form: ln2, cross_attn_out, resid_mid_cross; the FFN's norm is then
// ln3.
//
// In a parallel block the FFN also reads the stream before the block, through its own norm or through ln1:
//
//   x ──┬── ln1 ── attention ──(+)──(+)──▶
//       ├── ln2 ── ffn ───────────┼───┘
//       └─────────────────────────┘
#pragma once

#include "model/config.h"
#include "model/params.h"
#include "model/recurrent.h"

namespace vitrine {

/// What the blocks of a stack read besides the stream.
struct BlockContext {
  Tensor bias;     ///< The relative bias of the stack; no data without one.
  Tensor encoded;  ///< `[S, d_encoder]`: the encoder's output; no data without one, or if caches hold its K and V.
  SharedStates source_states{};  ///< The last states of a recurrent encoder's layers.
  SharedStates last_states{};    ///< Receive those of this stack's layers; null: nothing.
  RopeTables rope{};             ///< The rotations of the blocks with RoPE.
};

/// `[T, d]` from x `[T, d]`; a recurrent or dense layer, which has no residual stream, may change the width. Norms that
/// the config does not have are the identity.
Tensor block(Pass& p, BlockSite at, const BlockConfig& c, const BlockParams& w, const BlockContext& context,
             const Tensor& x);

}  // namespace vitrine
