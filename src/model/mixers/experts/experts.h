// A mixture of experts: a feed-forward sublayer of many experts, of which each token uses a few.
//
//   x [T, d] ──┬── router ── score ── top-k ──▶ chosen [T, k], shares [T, k]                  (ops/route.h)
//              │        ┌── expert 3 ◀── its rows of x, gathered  [n, d]
//              ├────────┼── expert 7 ◀── …
//              │        └── …                        out[t] = Σ_r shares[t, r] · expert_{chosen[t, r]}(x[t])
//              └── shared expert [· sigmoid(x · shared_gate)]      added, if there is one
//
// Only the chosen experts are computed. The outputs of a token's experts are added by rank, the first choice first, so
// that its result does not depend on the other tokens of the pass. With weighs_input, of a token's only expert,
// out[t] = expert(shares[t] · x[t]), and the expert is chosen by its logit, which a score rounded to 1 does not tell.
#pragma once

#include <vector>

#include "model/mixers/experts/sites.h"
#include "model/mixers/ffn/ffn.h"
#include "ops/route.h"

namespace vitrine {

inline constexpr std::int64_t kMaxExperts = 1 << 15;  ///< Of all layers; each has parameters of its own.

/// Norms of the parts of a mixture, beside those of the sublayer. Absent norms are the identity; a part with one reads
/// the stream in place of the sublayer's normed input.
struct ExpertNorms {
  std::optional<NormConfig> router{};       ///< Of what the router reads.
  std::optional<NormConfig> pre{}, post{};  ///< Of what the chosen experts read, and of their weighted sum.
  std::optional<NormConfig> shared_post{};  ///< Of the shared expert's output.

  bool operator==(const ExpertNorms&) const = default;
};

template <ConfigOf<ExpertNorms> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"router_norm", "of what the router reads, which is then the stream", {}, false}, c.router);
  visit(Field{"experts_norm_before", "of what experts read, which is then the stream", {}, false}, c.pre);
  visit(Field{"experts_norm_after", "of the weighted sum of the experts", {}, false}, c.post);
  visit(Field{"shared_norm_after", "of the shared expert's output", {}, false}, c.shared_post);
}

struct MoeParams {
  LinearParams router;                 ///< `[n_experts, d_model]`
  Param correction;                    ///< `[n_experts]`, if the router has one.
  Param expert_scale;                  ///< `[n_experts]`, if the router has one.
  LinearParams latent_in, latent_out;  ///< `[latent, d_model]`, `[d_model, latent]`, if experts read a projection.
  std::vector<FfnParams> experts;
  FfnParams shared;          ///< If there is a shared expert.
  LinearParams shared_gate;  ///< `[1, d_model]`, if there is a shared expert with a gate.
  NormParams ln_router, ln_experts, ln_experts_post, ln_shared_post;  ///< Only the norms of the config.
};

struct MoeConfig {
  using Params = MoeParams;
  static constexpr std::string_view kName = "experts";

  std::int64_t n_experts = 0;
  std::int64_t top_k = 0;
  DenseConfig expert;
  /// Divides the chosen weights by their sum, which equals a softmax over the chosen logits alone.
  bool renormalize = true;
  std::optional<DenseConfig> shared;  ///< An expert that every token uses.
  RouterConfig router{};
  bool shared_gate = true;  ///< The shared expert is multiplied by sigmoid(x · shared_gate).
  ExpertNorms norms{};
  bool router_bias = false;
  /// Elements of a projection of the stream that the chosen experts read, and whose sum is projected back.
  std::optional<std::int64_t> latent{};
  bool latent_bias = false;   ///< Of both projections.
  bool weighs_input = false;  ///< The weight multiplies what the expert reads, instead of its output; top_k is 1.

  bool operator==(const MoeConfig&) const = default;
};

template <ConfigOf<MoeConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"n_experts", "experts of a layer; without this key the FFN is dense", "dense"}, c.n_experts);
  visit(Field{"top_k", "experts that a token uses", Field::kRequired}, c.top_k);
  visit(Field{"renormalize", "divides the weights of the chosen by their sum"}, c.renormalize);
  visit(Field{"expert", "one expert"}, c.expert);
  visit(Field{"shared", "an expert that every token uses"}, c.shared);
  if (c.shared) visit(Field{"shared_gate", "multiplies the shared expert by sigmoid(x · shared_gate)"}, c.shared_gate);
  visit(Field{"router_bias", "a bias of the router's logits"}, c.router_bias);
  visit(
      Field{"latent_experts", "elements of a projection that experts read, and whose sum is projected back", {}, false},
      c.latent);
  if (c.latent) visit(Field{"latent_bias", "biases of these projections", {}, false}, c.latent_bias);
  visit(Field{"weighs_input", "the weight multiplies an expert's input, instead of its output; `top_k` is 1"},
        c.weighs_input);
  visit(Field{"router", "how the router scores, chooses and weighs"}, c.router);
  visit(Field{"", "norms of the parts"}, c.norms);
}

/// Whether a parameter of this name only chooses experts, and is not trained by a gradient.
constexpr bool is_correction(std::string_view name) { return name.ends_with(".mlp.correction.bias"); }

inline MoeParams unset_params(const MoeConfig& c) {
  MoeParams params;
  params.experts.resize(static_cast<std::size_t>(c.n_experts));
  return params;
}

constexpr SublayerNames names_of(const MoeConfig& c) { return names_of(c.expert); }
constexpr const SiteTable& site_table(const MoeConfig&) { return kExpertSiteTable; }
void check(std::string_view where, const MoeConfig& c);
void list_params(ParamList& list, const std::string& at, const MoeConfig& c, MoeParams& w, Widths d);
inline CacheLayerConfig cache_layer(const MoeConfig&) { return {}; }
void tap_input(Pass& p, BlockSite at, const MoeConfig& c, SublayerInput& in);
Tensor forward(Pass& p, BlockSite at, const MoeConfig& c, const MoeParams& w, const SublayerInput& in);
std::optional<double> gguf_word(const MoeConfig& c, std::string_view word);
void divide(WeightDivider& divider, MoeConfig& c, MoeParams& w);

}  // namespace vitrine
