// One layer of a residual stack: its sublayers, one after another, each added to the residual stream. With attention
// and an FFN (Transformer):
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
//
// A third sublayer can add a per-layer embedding (mixers/per_layer): ln3_post, ple_out, resid_mid_ple. Or it can add a
// convolution of the stream before the block (mixers/convolution), with a norm of the sum, ln3. The last sum of a block
// can be multiplied by a number of the checkpoint. With AltUp (altup/altup.h) the block computes one of several
// streams.
#pragma once

#include "model/config.h"
#include "model/params.h"

namespace vitrine {

/// What the layers of a stack read besides the stream.
struct StackContext : LayerContext {
  Tensor bias{};             ///< The relative bias of the stack; no data without one.
  PositionRows positions{};  ///< Of its table of relative positions.
  RopeTables rope{};         ///< The rotations of the layers with RoPE.
  /// By layer: the keys and values that later layers read, too; no data for other layers. Empty if no layer reads those
  /// of another.
  std::vector<KeyValueRows> shared{};
  Tensor per_layer{};  ///< `[T, n_layers · p]`: the inputs of per-layer embeddings; no data without them.
  const AltUpConfig* altup = nullptr;  ///< Null: the stream is one.
};

/// `[T, d]` from x `[T, d]`, the rows of all streams if there are several. Norms that the config does not have are the
/// identity.
Tensor block(Pass& p, BlockSite at, const BlockConfig& c, const BlockParams& w, const StackContext& context,
             const Tensor& x);

}  // namespace vitrine
