// A recurrent layer: the states of a cell, or of two that read the rows in both directions, replace the stream.
//
//   x [T, in] ── W_ih ──▶ scan ──▶ h [T, d_hidden]            one direction
//   x ─┬─ W_ih ──▶ scan ─────────▶ →h ─┐
//      └─ W_ih ──▶ scan, reversed ▶ ←h ─┴─▶ [→h ; ←h]          both
//
// In a decoder the state before the first token comes from the encoder's last states, through a bridge, and that before
// a later pass from the cache. The first layer may read the encoder's output by additive attention.
#pragma once

#include <array>
#include <string_view>

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
  static constexpr std::string_view kName = "recurrent";

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

constexpr std::array<std::string_view, 2> words(RecurrentConfig::Bridge) { return {"copy", "linear"}; }
template <ConfigOf<RecurrentConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  for_each_field(base_of<CellConfig>(c), visit);
  visit(Field{"bidirectional", "recurrent: a second cell reads the tokens in reverse; a row is [→h ; ←h]"},
        c.bidirectional);
  visit(Field{"bridge", "to the first state of a decoder from the encoder's last", {}, false}, c.bridge);
  if (c.d_attention) visit(Field{"d_attention", "inner size of additive attention", "`d_hidden`"}, c.d_attention);
}

constexpr const SiteTable& site_table(const RecurrentConfig&) { return kCellSiteTable; }
void check(std::string_view where, const RecurrentConfig& c, const LayerPlace& place);
void list_params(ParamList& list, const RecurrentConfig& c, RecurrentParams& w, const LayerPlace& place);
CacheLayerConfig cache_layer(const RecurrentConfig& c);  ///< h and, of an LSTM, c
/// `[T, width]` from x `[T, in]`.
Tensor forward(Pass& p, BlockSite at, const RecurrentConfig& c, const RecurrentParams& w, const LayerContext& context,
               const Tensor& x);

/// Memory for the last states of a layer, by segment. With a tape they have gradients.
LayerStates make_states(Pass& p, Stack stack, const RecurrentConfig& c);

}  // namespace vitrine
