// A convolution over the tokens of a text, to both sides of each, next to attention and the FFN of a block:
//
//   x [T, d] ── kernel of k neighbours ── act ──▶ out [T, d]
//
// Outside the text the neighbours are zeros. The reference drops elements before the activation; here dropout is that
// of every sublayer, of the output. Sources: He et al. 2021, section "Conv Layer" of DeBERTa's second version;
// transformers, models/deberta_v2 (ConvLayer).
#pragma once

#include "model/mixers/convolution/sites.h"
#include "model/mixers/mixer.h"
#include "model/param_list.h"
#include "ops/elementwise.h"

namespace vitrine {

struct ConvolutionLayerParams {
  LinearParams kernel;  ///< `[d, d · k]`: of an input channel the k neighbours, then the next channel.
};

struct ConvolutionConfig {
  using Params = ConvolutionLayerParams;
  static constexpr std::string_view kName = "convolution";

  std::int64_t width = 0;  ///< Neighbours that a sum reads (k), its own token in their middle: odd.
  Activation activation = Activation::tanh;

  bool operator==(const ConvolutionConfig&) const = default;
};

template <ConfigOf<ConvolutionConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"convolution_width", "tokens that a sum of the convolution reads, its own in their middle", {}, false},
        c.width);
  visit(Field{"convolution_activation", "of the convolution", {}, false}, c.activation);
}

constexpr const SiteTable& site_table(const ConvolutionConfig&) { return kConvolutionSiteTable; }
constexpr SublayerNames names_of(const ConvolutionConfig&) {
  using enum ConvolutionSite;
  return {.prefix = "convolution",
          .role = "convolution",
          .in = in,
          .out = ConvolutionSite::out,
          .pre = norms::ln3_post,
          .post = norms::ln3_post,
          .norm = 3,
          .mid = {resid_mid, {mid_scale, mid_normalized, mid_out}, normalized_resid_mid},
          .last = {Site::resid_post, norms::third, Site::normalized_resid_post}};
}
void check(std::string_view where, const ConvolutionConfig& c);
void list_params(ParamList& list, const std::string& at, const ConvolutionConfig& c, ConvolutionLayerParams& w,
                 Widths d);
/// It reads later tokens: a model that has it has no cache.
inline CacheLayerConfig cache_layer(const ConvolutionConfig&) { return {}; }
inline void tap_input(Pass& p, BlockSite at, const ConvolutionConfig&, SublayerInput& in) {
  tap_stream(p, at(ConvolutionSite::in), in);
}
Tensor forward(Pass& p, BlockSite at, const ConvolutionConfig& c, const ConvolutionLayerParams& w,
               const SublayerInput& in);
inline std::optional<double> gguf_word(const ConvolutionConfig&, std::string_view) { return {}; }
/// Refuses: a convolution is not divided by heads.
void divide(WeightDivider& divider, ConvolutionConfig& c, ConvolutionLayerParams& w);

}  // namespace vitrine
