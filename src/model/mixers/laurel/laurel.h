// A learned residual branch of low rank (LAuReL), next to attention, whose norm it shares:
//
//   n [T, d] ──┬── w_left ── w_right ── ln ──(+)──▶ out [T, d]
//              └─────────────────────────────┘
//
// Source: Menghani et al. 2024; transformers, models/gemma3n.
#pragma once

#include "model/mixers/laurel/sites.h"
#include "model/mixers/mixer.h"
#include "model/param_list.h"

namespace vitrine {

struct LaurelParams {
  LinearParams w_left;   ///< `[rank, d_model]`
  LinearParams w_right;  ///< `[d_model, rank]`
  NormParams ln;
};

struct LaurelConfig {
  using Params = LaurelParams;
  static constexpr std::string_view kName = "laurel";

  std::int64_t rank = 0;
  NormConfig norm{};  ///< Of what the map computes.

  bool operator==(const LaurelConfig&) const = default;
};

template <ConfigOf<LaurelConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"laurel_rank", "of the map of a learned residual branch (LAuReL)", {}, false}, c.rank);
  visit(Field{"laurel_norm", "of what the map computes", {}, false}, c.norm);
}

constexpr const SiteTable& site_table(const LaurelConfig&) { return kLaurelSiteTable; }
constexpr SublayerNames names_of(const LaurelConfig&) {
  constexpr NormSites kNorm{LaurelSite::laurel_scale, LaurelSite::laurel_normalized, LaurelSite::laurel_norm_out};
  return {"laurel", "LAuReL", LaurelSite::laurel_pre, LaurelSite::laurel_out, kNorm, kNorm};
}
void check(std::string_view where, const LaurelConfig& c);
void list_params(ParamList& list, const std::string& at, const LaurelConfig& c, LaurelParams& w, Widths d);
inline CacheLayerConfig cache_layer(const LaurelConfig&) { return {}; }
/// It reads what attention reads, which has a site for it.
inline void tap_input(Pass&, BlockSite, const LaurelConfig&, SublayerInput&) {}
Tensor forward(Pass& p, BlockSite at, const LaurelConfig& c, const LaurelParams& w, const SublayerInput& in);
inline std::optional<double> gguf_word(const LaurelConfig&, std::string_view) { return {}; }
/// Every rank computes all of it, which is small.
inline void divide(WeightDivider&, LaurelConfig&, LaurelParams&) {}

}  // namespace vitrine
