// The sites of an FFN.
#pragma once

#include "pass/sites.h"

namespace vitrine {

enum class FfnSite : std::uint8_t {
  mlp_in,
  lora_gate,
  mlp_pre,
  lora_up,
  mlp_pre_linear,
  mlp_post,
  lora_down,
  mlp_proj,
  mlp_out,
};

/// The width between the two projections.
namespace dims {
inline constexpr Dim d_ff{"d_ff"};
}  // namespace dims

inline constexpr auto kFfnSites = [] {
  using namespace dims;
  return std::to_array<SiteInfo>({
      {SitePlace::ffn_input, kOnDemand, "hook_mlp_in", {T, d}, "the input of the MLP, before ln2"},
      {SitePlace::ffn, kDefault, "mlp.hook_lora_gate", {T, d_ff}, "what adapters add to the gate", 79},
      {SitePlace::ffn, kDefault, "mlp.hook_pre", {T, d_ff}, "before the activation (gated: the gate)"},
      {SitePlace::ffn, kDefault, "mlp.hook_lora_up", {T, d_ff}, "what adapters add to the up projection", 81},
      {SitePlace::ffn, kDefault, "mlp.hook_pre_linear", {T, d_ff}, "the up projection of a gated MLP"},
      {SitePlace::ffn, kDefault, "mlp.hook_post", {T, d_ff}, "after the activation (gated: times the up projection)"},
      {SitePlace::ffn, kDefault, "mlp.hook_lora_down", {T, d}, "what adapters add to the output of w_down", 84},
      {SitePlace::ffn, kDefault, "mlp.hook_out", {T, d}, "after w_down and its bias, before the post-norm"},
      {SitePlace::ffn_output, kDefault, "hook_mlp_out", {T, d}, "the output of the MLP, added to the stream", 89},
  });
}();
inline constexpr SiteTable kFfnSiteTable{"ffn", kFfnSites};
constexpr const SiteTable& sites_of(FfnSite) { return kFfnSiteTable; }
static_assert(kFfnSites.size() == static_cast<std::size_t>(FfnSite::mlp_out) + 1);

}  // namespace vitrine
