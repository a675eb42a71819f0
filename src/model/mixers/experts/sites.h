// The sites of a mixture of experts.
#pragma once

#include "pass/sites.h"

namespace vitrine {

enum class ExpertSite : std::uint8_t {
  router_logits,
  router_scores,
  expert_weights,
  expert_indices,
  expert_tokens,
  expert_lora_gate,
  expert_gate,
  expert_lora_up,
  expert_pre,
  expert_post,
  expert_lora_down,
  expert_out,
};

/// E experts, k of them chosen per token, d_fe the d_ff of an expert.
namespace dims {
inline constexpr Dim E{"E"};
inline constexpr Dim k{"k"};
inline constexpr Dim d_fe{"d_fe"};
}  // namespace dims

inline constexpr auto kExpertSites = [] {
  using namespace dims;
  return std::to_array<SiteInfo>({
      {SitePlace::ffn, kDefault, "mlp.hook_router_logits", {T, E}, "the router's logit of each expert"},
      {SitePlace::ffn,
       kDefault,
       "mlp.hook_router_scores",
       {T, E},
       "softmax or sigmoid of the router logits, before top-k"},
      {SitePlace::ffn,
       kDefault,
       "mlp.hook_expert_weights",
       {T, E},
       "what multiplies the outputs of the chosen experts, or their inputs, 0 for the others; if the scores alone "
       "choose "
       "and weigh: the scores, before top-k"},
      {SitePlace::ffn, kDefault, "mlp.hook_expert_indices", {T, k}, "the chosen experts, highest rank first"},
      {SitePlace::ffn, kDefault, "mlp.experts.{e}.hook_tokens", {n}, "the rows routed to the expert"},
      {SitePlace::ffn, kDefault, "mlp.experts.{e}.hook_lora_gate", {n, d_fe}, "what adapters add to the gate", 72},
      {SitePlace::ffn,
       kDefault,
       "mlp.experts.{e}.hook_gate",
       {n, d_fe},
       "the gate before the activation; gated experts only"},
      {SitePlace::ffn,
       kDefault,
       "mlp.experts.{e}.hook_lora_up",
       {n, d_fe},
       "what adapters add to the up projection",
       74},
      {SitePlace::ffn,
       kDefault,
       "mlp.experts.{e}.hook_pre",
       {n, d_fe},
       "the up projection (not gated: before the activation)"},
      {SitePlace::ffn,
       kDefault,
       "mlp.experts.{e}.hook_post",
       {n, d_fe},
       "after the activation (gated: times the up projection)"},
      {SitePlace::ffn, kDefault, "mlp.experts.{e}.hook_lora_down", {n, d}, "what adapters add to the output", 77},
      {SitePlace::ffn,
       kDefault,
       "mlp.experts.{e}.hook_out",
       {n, d},
       "the output of the expert, before it is multiplied by its weight"},
  });
}();
inline constexpr SiteTable kExpertSiteTable{"experts", kExpertSites};
constexpr const SiteTable& sites_of(ExpertSite) { return kExpertSiteTable; }
static_assert(kExpertSites.size() == static_cast<std::size_t>(ExpertSite::expert_out) + 1);

}  // namespace vitrine
