// A per-layer embedding (PLE): a sublayer that adds a second embedding of the token, which each layer has for itself.
//
//   x [T, d] ── w_gate ── act ── · input [T, p] ── w_proj ──▶ out [T, d]
//
// The inputs of all layers are computed once, before the first layer (PerLayerInputConfig). Source: Gemma Team 2025.
#pragma once

#include "model/mixers/mixer.h"
#include "model/mixers/per_layer/sites.h"
#include "model/param_list.h"
#include "ops/elementwise.h"

namespace vitrine {

struct PerLayerParams {
  LinearParams w_gate;  ///< `[p, d_model]`
  LinearParams w_proj;  ///< `[d_model, p]`
};

struct PerLayerConfig {
  using Params = PerLayerParams;
  static constexpr std::string_view kName = "per_layer";

  std::int64_t width = 0;  ///< Elements of a layer's input (p).
  Activation activation = Activation::gelu_tanh;

  bool operator==(const PerLayerConfig&) const = default;
};

template <ConfigOf<PerLayerConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"per_layer_width", "elements of a layer's part of the per-layer embeddings", {}, false}, c.width);
  visit(Field{"per_layer_activation", "of the gate of a per-layer embedding", {}, false}, c.activation);
}

constexpr const SiteTable& site_table(const PerLayerConfig&) { return kPerLayerSiteTable; }
constexpr SublayerNames names_of(const PerLayerConfig&) {
  return {.prefix = "ple",
          .role = "per-layer embedding",
          .in = PerLayerSite::ple_in,
          .out = PerLayerSite::ple_out,
          .pre = norms::ln3_post,
          .post = norms::ln3_post,
          .norm = 3,
          .mid = {Site::resid_mid_ple, norms::mid, Site::normalized_resid_mid}};
}
void check(std::string_view where, const PerLayerConfig& c);
void list_params(ParamList& list, const std::string& at, const PerLayerConfig& c, PerLayerParams& w, Widths d);
inline CacheLayerConfig cache_layer(const PerLayerConfig&) { return {}; }
void tap_input(Pass& p, BlockSite at, const PerLayerConfig& c, SublayerInput& in);
Tensor forward(Pass& p, BlockSite at, const PerLayerConfig& c, const PerLayerParams& w, const SublayerInput& in);
/// Files have the width with the sizes of the whole model.
inline std::optional<double> gguf_word(const PerLayerConfig&, std::string_view) { return {}; }
/// Every rank computes all of it, which is small.
inline void divide(WeightDivider&, PerLayerConfig&, PerLayerParams&) {}

}  // namespace vitrine
