// A mixer that is a short convolution between two gates (LFM2):
//
//   x [T, d] ── w_in ──▶ B, C, x' ── B ⊙ x' ── conv ── C ⊙ · ── w_out ──▶ out [T, d]
//
// Sources: Liquid AI 2025 (LFM2); transformers, models/lfm2.
#pragma once

#include "model/mixers/conv/sites.h"
#include "model/mixers/mixer.h"
#include "model/param_list.h"
#include "ops/short_convolution.h"

namespace vitrine {

struct ConvParams {
  LinearParams w_in;  ///< `[3 · d, d]`: B, C and x'.
  ConvolutionParams conv;
  LinearParams w_out;  ///< `[d, d]`
};

struct ConvConfig {
  using Params = ConvParams;
  static constexpr std::string_view kName = "conv";

  std::int64_t width = 0;  ///< Tokens that a sum of the convolution reads, the last one included.
  std::int64_t channels = 0;
  bool bias = false;  ///< Of the convolution and of both projections.

  bool operator==(const ConvConfig&) const = default;
};

template <ConfigOf<ConvConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"d_conv", "tokens that a sum of the short convolution reads, its own included", "4"}, c.width);
  visit(Field{"n_conv_channels", "of the convolution", {}, false}, c.channels);
  visit(Field{"mixer_bias", "biases of the projections around a mixer with a state"}, c.bias);
}

constexpr const SiteTable& site_table(const ConvConfig&) { return kConvSiteTable; }
constexpr SublayerNames names_of(const ConvConfig&) {
  return {"conv", "a short convolution", ConvSite::mixer_in, ConvSite::mixer_out, norms::ln1, norms::ln1_post};
}
void check(std::string_view where, const ConvConfig& c);
void list_params(ParamList& list, const std::string& at, const ConvConfig& c, ConvParams& w, Widths d);
inline CacheLayerConfig cache_layer(const ConvConfig& c) {
  return std::vector<StateConfig>{window_config(c.channels, c.width)};
}
inline void tap_input(Pass& p, BlockSite at, const ConvConfig&, SublayerInput& in) {
  tap_stream(p, at(ConvSite::mixer_in), in);
}
Tensor forward(Pass& p, BlockSite at, const ConvConfig& c, const ConvParams& w, const SublayerInput& in);
std::optional<double> gguf_word(const ConvConfig& c, std::string_view word);
/// Refuses: a convolution is not divided by heads.
void divide(WeightDivider& divider, ConvConfig& c, ConvParams& w);

}  // namespace vitrine
