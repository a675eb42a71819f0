// A mixer of tokens for tests: a moving sum, whose decay is learned for each element.
//
//   h[t] = a ⊙ h[t−1] + x[t]        out[t] = h[t] · wo
#pragma once

#include "model/mixers/average/sites.h"
#include "model/mixers/mixer.h"
#include "model/param_list.h"

namespace vitrine {

struct AverageParams {
  Param decay;  ///< a, `[d]`
  LinearParams wo;
};

struct AverageConfig {
  using Params = AverageParams;
  static constexpr std::string_view kName = "average";

  std::int64_t width = 0;  ///< Elements of a state: d_model.
  bool bias = false;       ///< Of wo.

  bool operator==(const AverageConfig&) const = default;
};

template <ConfigOf<AverageConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"width", "elements of a state"}, c.width);
  visit(Field{"average_bias", "of the output projection"}, c.bias);
}

constexpr const SiteTable& site_table(const AverageConfig&) { return kAverageSiteTable; }
constexpr SublayerNames names_of(const AverageConfig&) {
  return {"average", "average", AverageSite::average_in, AverageSite::average_out, norms::ln1, norms::ln1_post, 1};
}
void check(std::string_view where, const AverageConfig& c);
void list_params(ParamList& list, const std::string& at, const AverageConfig& c, AverageParams& w, Widths d);
CacheLayerConfig cache_layer(const AverageConfig& c);
void tap_input(Pass& p, BlockSite at, const AverageConfig& c, SublayerInput& in);
Tensor forward(Pass& p, BlockSite at, const AverageConfig& c, const AverageParams& w, const SublayerInput& in);
std::optional<double> gguf_word(const AverageConfig& c, std::string_view word);
void divide(WeightDivider& divider, AverageConfig& c, AverageParams& w);

}  // namespace vitrine
