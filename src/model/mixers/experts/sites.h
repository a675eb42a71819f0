// The sites of a mixture of experts.
#pragma once

#include "pass/sites.h"

namespace vitrine {

enum class ExpertSite : std::uint8_t {
  router_norm_scale,
  router_norm_normalized,
  router_norm_out,
  router_logits,
  router_scores,
  expert_weights,
  expert_indices,
  experts_norm_scale,
  experts_norm_normalized,
  experts_norm_out,
  expert_tokens,
  expert_lora_gate,
  expert_gate,
  expert_lora_up,
  expert_pre,
  expert_post,
  expert_lora_down,
  expert_out,
  experts_post_norm_scale,
  experts_post_norm_normalized,
  experts_post_norm_out,
  shared_post_norm_scale,
  shared_post_norm_normalized,
  shared_post_norm_out,
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
      {SitePlace::ffn, kDefault, "mlp.ln_router.hook_scale", {T, one}, "the divisor of a norm of the router's input"},
      {SitePlace::ffn, kDefault, "mlp.ln_router.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::ffn, kDefault, "mlp.ln_router.hook_out", {T, d}, "after the weight"},
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
      {SitePlace::ffn, kDefault, "mlp.ln_experts.hook_scale", {T, one}, "the divisor of a norm of the experts' input"},
      {SitePlace::ffn, kDefault, "mlp.ln_experts.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::ffn, kDefault, "mlp.ln_experts.hook_out", {T, d}, "after the weight"},
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
      {SitePlace::ffn,
       kDefault,
       "mlp.ln_experts_post.hook_scale",
       {T, one},
       "the divisor of a norm of the chosen experts' weighted sum"},
      {SitePlace::ffn, kDefault, "mlp.ln_experts_post.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::ffn, kDefault, "mlp.ln_experts_post.hook_out", {T, d}, "after the weight"},
      {SitePlace::ffn,
       kDefault,
       "mlp.ln_shared_post.hook_scale",
       {T, one},
       "the divisor of a norm of the shared expert's output"},
      {SitePlace::ffn, kDefault, "mlp.ln_shared_post.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::ffn, kDefault, "mlp.ln_shared_post.hook_out", {T, d}, "after the weight"},
  });
}();
inline constexpr SiteTable kExpertSiteTable{"experts", kExpertSites};
constexpr const SiteTable& sites_of(ExpertSite) { return kExpertSiteTable; }
inline constexpr NormSites kRouterNorm{ExpertSite::router_norm_scale, ExpertSite::router_norm_normalized,
                                       ExpertSite::router_norm_out};
inline constexpr NormSites kExpertsNorm{ExpertSite::experts_norm_scale, ExpertSite::experts_norm_normalized,
                                        ExpertSite::experts_norm_out};
inline constexpr NormSites kExpertsPostNorm{
    ExpertSite::experts_post_norm_scale, ExpertSite::experts_post_norm_normalized, ExpertSite::experts_post_norm_out};
inline constexpr NormSites kSharedPostNorm{ExpertSite::shared_post_norm_scale, ExpertSite::shared_post_norm_normalized,
                                           ExpertSite::shared_post_norm_out};
static_assert(kExpertSites.size() == static_cast<std::size_t>(ExpertSite::shared_post_norm_out) + 1);

}  // namespace vitrine
