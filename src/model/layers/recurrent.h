// A recurrent layer: the states of a cell, or of two that read the rows in both directions, replace the stream.
//
//   x [T, in] ── W_ih ──▶ scan ──▶ h [T, d_hidden]            one direction
//   x ─┬─ W_ih ──▶ scan ─────────▶ →h ─┐
//      └─ W_ih ──▶ scan, reversed ▶ ←h ─┴─▶ [→h ; ←h]          both
//
// In a decoder the state before the first token comes from the encoder's last states, through a bridge, and that before
// a later pass from the cache. The first layer may read the encoder's output by additive attention.
#pragma once

#include "model/layers/layer.h"
#include "ops/additive.h"
#include "ops/recurrent_sites.h"

namespace vitrine {

struct RecurrentParams {
  CellParams forward, reverse;    ///< `reverse` if the layer reads both directions.
  LinearParams bridge, bridge_c;  ///< `[d_hidden, that of the encoder's states]`, if the bridge is linear.
  AdditiveParams attention;       ///< If the layer has additive attention.
};

struct RecurrentConfig : CellConfig {
  using Params = RecurrentParams;

  /// Where the state before a decoder's first token comes from: the encoder's last state of the same layer, as it is,
  /// or tanh(W [→h ; ←h] + b). Absent: zeros.
  enum class Bridge : std::uint8_t { copy, linear };

  bool bidirectional = false;  ///< A second cell reads the tokens in reverse; rows are [→h ; ←h].
  std::optional<Bridge> bridge{};
  /// The inner size of additive attention to the encoder's output, whose result the cell reads after its input
  /// (Bahdanau et al. 2014). Only in the first layer of a decoder.
  std::optional<std::int64_t> d_attention{};

  std::int64_t width() const { return bidirectional ? 2 * d_hidden : d_hidden; }
  bool operator==(const RecurrentConfig&) const = default;
};

constexpr const SiteTable& site_table(const RecurrentConfig&) { return kCellSiteTable; }
void check(std::string_view where, const RecurrentConfig& c, const LayerPlace& place);
void list_params(ParamList& list, const RecurrentConfig& c, RecurrentParams& w, const LayerPlace& place);
ConfigFacts describe(const RecurrentConfig& c);
CacheLayerConfig cache_layer(const RecurrentConfig& c);  ///< h and, of an LSTM, c
/// `[T, width]` from x `[T, in]`.
Tensor forward(Pass& p, BlockSite at, const RecurrentConfig& c, const RecurrentParams& w, const LayerContext& context,
               const Tensor& x);

/// Memory for the last states of a layer, by segment. With a tape they have gradients.
LayerStates make_states(Pass& p, Stack stack, const RecurrentConfig& c);

}  // namespace vitrine
