// A recurrent layer: the states of a cell, or of two that read the rows in both directions, replace the stream.
//
//   x [T, in] ── W_ih ──▶ scan ──▶ h [T, d_hidden]            one direction
//   x ─┬─ W_ih ──▶ scan ─────────▶ →h ─┐
//      └─ W_ih ──▶ scan, reversed ▶ ←h ─┴─▶ [→h ; ←h]          both
//
// In a decoder the state before the first token comes from the encoder's last states, through a bridge, and that before
// a later pass from the cache. The first layer may read the encoder's output by additive attention.
#pragma once

#include <memory>
#include <vector>

#include "model/config.h"
#include "model/params.h"

namespace vitrine {

/// The last states of a layer, by segment.
struct LayerStates {
  CellStates forward, reverse;
};

/// Those of all layers of a stack. A tape shares them; null: none.
using SharedStates = std::shared_ptr<const std::vector<LayerStates>>;

/// What a layer reads besides the stream, and what it reports.
struct RecurrentContext {
  Tensor encoded;                       ///< `[S, d_encoder]`: the encoder's output; no data if caches hold it.
  const LayerStates* source = nullptr;  ///< The encoder's last states; null without a bridge.
  LayerStates last{};                   ///< Receives the last states, if it has data.
};

/// `[T, width]` from x `[T, in]`.
Tensor recurrent_layer(Pass& p, BlockSite at, const RecurrentConfig& c, const RecurrentParams& w,
                       const RecurrentContext& context, const Tensor& x);

/// Memory for the last states of all layers of a recurrent stack, which its layers fill. With a tape they have
/// gradients. Null for other stacks.
SharedStates make_states(Pass& p, Stack stack, const StackConfig& c);

}  // namespace vitrine
