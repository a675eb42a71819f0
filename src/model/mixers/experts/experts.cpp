#include "model/mixers/experts/experts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/exchanged.h"
#include "model/checks.h"
#include "model/mixers/experts/sites.h"
#include "model/mixers/ffn/sites.h"
#include "ops/elementwise.h"
#include "ops/op_kind.h"
#include "ops/route.h"

namespace vitrine {
namespace {

/// For every expert, the slots t · top_k + rank of its tokens, in ascending order.
using Slots = std::vector<std::vector<std::int64_t>>;

/// The index below n that a value at a site represents. Throws BadInput if a tap has written another number.
std::int64_t index_of(float value, std::int64_t n, const SiteId& at) {
  const bool is_index = value >= 0 && value < static_cast<float>(n) && value == std::floor(value);
  if (!is_index) throw BadInput(name_of(at), "expected whole numbers from 0 to {}, got {}", n - 1, value);
  return static_cast<std::int64_t>(value);
}

Slots slots_of(const Tensor& chosen, std::int64_t n_experts, const SiteId& at, bool shapes_only) {
  Slots slots(static_cast<std::size_t>(n_experts));
  if (shapes_only) {  // tokens are distributed evenly
    for (std::int64_t i = 0; i < chosen.count(); ++i) slots[static_cast<std::size_t>(i % n_experts)].push_back(i);
    return slots;
  }
  for (std::int64_t i = 0; i < chosen.count(); ++i) {
    slots[static_cast<std::size_t>(index_of(chosen.data[i], n_experts, at))].push_back(i);
  }
  return slots;
}

FfnSites sites_of(BlockSite at, int expert, bool gated) {
  const SiteId up = at.of_expert(ExpertSite::expert_pre, expert);
  const SiteId gate = gated ? at.of_expert(ExpertSite::expert_gate, expert) : up;
  return {gate,
          up,
          at.of_expert(ExpertSite::expert_post, expert),
          at.of_expert(ExpertSite::expert_out, expert),
          at.of_expert(ExpertSite::expert_lora_gate, expert),
          at.of_expert(ExpertSite::expert_lora_up, expert),
          at.of_expert(ExpertSite::expert_lora_down, expert)};
}

/// `[n, d]`: the output of one expert for its tokens. `shares` `[T · top_k, 1]` multiply its input if they have data.
Tensor run_expert(Pass& p, BlockSite at, int expert, const DenseConfig& c, const FfnParams& w, const Tensor& x,
                  const std::vector<std::int64_t>& slots, std::int64_t top_k, const Tensor& shares) {
  const SiteId tokens_site = at.of_expert(ExpertSite::expert_tokens, expert);
  Tensor tokens = p.tensor({static_cast<std::int64_t>(slots.size())});
  p.for_rows(tokens.count(), 1,
             [&](std::int64_t i) { tokens.data[i] = static_cast<float>(slots[static_cast<std::size_t>(i)] / top_k); });
  tokens = p.tap(tokens_site, tokens);
  std::vector<std::int64_t> rows(slots.size());
  for (std::size_t i = 0; i < rows.size() && !p.shapes_only; ++i)
    rows[i] = index_of(tokens.data[i], x.rows(), tokens_site);
  Tensor taken = take_rows(p, x, rows);
  if (shares.data != nullptr) taken = multiply_rows(p, taken, take_rows(p, shares, slots));
  const Exchanged<RowsOfValue> own(p.rows, {at.stack, rows});
  return ffn(p, sites_of(at, expert, c.gated), c, w, taken);
}

/// `[T · top_k, d]`: the outputs of each token's experts, by rank. `shares` as in run_expert.
Tensor run_experts(Pass& p, BlockSite at, const MoeConfig& c, const std::vector<FfnParams>& w, const Tensor& x,
                   const Slots& slots, const Tensor& shares) {
  const std::int64_t d = x.row_size();
  const Tensor results = p.tensor({x.rows() * c.top_k, d});
  std::vector<Tensor> outputs;
  Slots slots_of_outputs;
  for (std::size_t e = 0; e < slots.size(); ++e) {
    if (slots[e].empty()) continue;
    const PassScope scope(p);
    const Tensor y = run_expert(p, at, static_cast<int>(e), c.expert, w[e], x, slots[e], c.top_k, shares);
    p.for_rows(y.rows(), d,
               [&](std::int64_t i) { std::copy_n(y.row(i), d, results.row(slots[e][static_cast<std::size_t>(i)])); });
    if (!p.is_taped()) continue;
    outputs.push_back(y);
    slots_of_outputs.push_back(slots[e]);
  }
  p.record(OpKind::run_experts, outputs, results, [&p, d, outputs, slots_of_outputs, results] {
    const Tensor dresults = p.grad(results);
    for (std::size_t e = 0; e < outputs.size(); ++e) {
      const Tensor dy = p.grad(outputs[e]);
      p.for_rows(dy.rows(), d, [&](std::int64_t i) {
        p.kernels.add(dy.row(i), dresults.row(slots_of_outputs[e][static_cast<std::size_t>(i)]), d, dy.row(i));
      });
    }
  });
  return results;
}

/// `[T, E]`: the weights of the chosen experts.
Tensor weigh(Pass& p, const MoeConfig& c, const MoeParams& w, const Tensor& scores, const Tensor& chosen) {
  const Tensor weights = chosen_weights(p, c.router, scores, chosen, c.renormalize);
  return c.router.expert_scale ? multiply_columns(p, weights, w.expert_scale) : weights;
}

/// `[T, d]`: the output of the expert that every token uses.
Tensor run_shared(Pass& p, BlockSite at, const MoeConfig& c, const MoeParams& w, const Tensor& x) {
  const auto gate = c.shared_gate ? std::optional(sigmoid(p, linear(p, w.shared_gate, x))) : std::nullopt;
  const Tensor y = ffn(p, sites_of(at, SiteId::kShared, c.shared->gated), *c.shared, w.shared, x);
  return gate ? multiply_rows(p, y, *gate) : y;
}

}  // namespace

Tensor forward(Pass& p, BlockSite at, const MoeConfig& c, const MoeParams& w, const SublayerInput& in) {
  const Tensor& x = in.normed;
  const auto part = [&](const NormSites& sites, const std::optional<NormConfig>& of, const NormParams& norm_params) {
    return of ? norm(p, at(sites), *of, norm_params, in.stream) : x;
  };
  const Tensor routed = scale(p, c.router.input_scale, part(kRouterNorm, c.norms.router, w.ln_router));
  const Tensor logits = p.tap(at(ExpertSite::router_logits), linear(p, w.router, routed));
  const bool is_softmax = c.router.score == RouterConfig::Score::softmax;
  const Tensor scores = p.tap(at(ExpertSite::router_scores), is_softmax ? softmax_rows(p, logits) : sigmoid(p, logits));
  const bool is_plain = c.router == RouterConfig();
  const Tensor known = is_plain ? p.tap(at(ExpertSite::expert_weights), scores) : scores;
  const Tensor chosen = p.tap(at(ExpertSite::expert_indices),
                              choose_experts(p, c.router, c.weighs_input ? logits : known, w.correction, c.top_k));
  const Slots slots = slots_of(chosen, c.n_experts, at(ExpertSite::expert_indices), p.shapes_only);
  if (c.router.correction) count_choices(p, w.correction, chosen, c.n_experts);
  if (p.training.loss != nullptr) {
    router_losses(p, logits, is_softmax ? known : softmax_rows(p, logits), chosen, at.stack);
  }
  const Tensor weights = is_plain ? known : p.tap(at(ExpertSite::expert_weights), weigh(p, c, w, known, chosen));
  const Tensor shares = shares_of(p, weights, chosen, is_plain && c.renormalize);

  const Tensor by_slot = c.weighs_input ? shares.reshaped({shares.count(), 1}) : Tensor();
  const Tensor whole = part(kExpertsNorm, c.norms.pre, w.ln_experts);
  const Tensor read = c.latent ? linear(p, w.latent_in, whole) : whole;
  const Tensor results = run_experts(p, at, c, w.experts, read, slots, by_slot);
  const Tensor sum = c.weighs_input ? results : mix_results(p, shares, results);
  const Tensor mixed = c.latent ? linear(p, w.latent_out, sum) : sum;
  const Tensor shared = c.shared ? run_shared(p, at, c, w, x) : Tensor();
  Tensor out = norm(p, at(kExpertsPostNorm), c.norms.post, w.ln_experts_post, mixed);
  if (c.shared) out = add(p, out, norm(p, at(kSharedPostNorm), c.norms.shared_post, w.ln_shared_post, shared));
  return p.tap(at(FfnSite::mlp_proj), out);
}

namespace {

void check(std::string_view where, const RouterConfig& c, std::int64_t n_experts, std::int64_t top_k) {
  check_size(where, "groups of experts", c.groups, n_experts);
  check_size(where, "groups of a token's experts", c.top_groups, c.groups);
  const std::int64_t size = n_experts / c.groups;
  const bool by_two = c.group_rank == RouterConfig::GroupRank::two_largest;
  if (n_experts % c.groups != 0) {
    throw BadInput(where, "expected groups of equally many experts, got {} experts in {} groups", n_experts, c.groups);
  }
  if (c.groups > 1 && by_two && size < 2) throw BadInput(where, "expected groups of at least two experts, got one");
  if (top_k > c.top_groups * size) {
    throw BadInput(where, "top_k: expected at most the {} experts of {} groups, got {}", c.top_groups * size,
                   c.top_groups, top_k);
  }
  check_number(where, "factor of the router's input", c.input_scale);
  const bool is_positive = c.eps >= 0 && c.min >= 0 && std::isfinite(c.eps) && std::isfinite(c.min);
  if (!is_positive || !std::isfinite(c.scale)) {
    throw BadInput(where, "expected finite numbers of the router, got eps {}, min {}, scale {}", c.eps, c.min, c.scale);
  }
}

}  // namespace

void check(std::string_view where, const MoeConfig& c) {
  check_size(where, "n_experts", c.n_experts, kMaxExperts);
  check_size(where, "top_k", c.top_k, c.n_experts);
  check_size(where, "d_ff of an expert", c.expert.d_ff);
  check(where, c.expert);
  if (c.shared) check_size(where, "d_ff of the shared expert", c.shared->d_ff);
  if (c.latent) check_size(where, "moe_latent_size", *c.latent);
  if (c.weighs_input && (c.top_k != 1 || c.router.correction)) {
    throw BadInput(where, "weighs_input: expected one expert for each token (top_k 1), and no correction");
  }
  check(where, c.router, c.n_experts, c.top_k);
  for (const auto* const norm : {&c.norms.router, &c.norms.pre, &c.norms.post, &c.norms.shared_post}) {
    check_norm(where, "a norm of experts", *norm);
  }
  if (c.norms.shared_post && !c.shared) throw BadInput(where, "a norm of the shared expert requires one");
}

void list_params(ParamList& list, const std::string& at, const MoeConfig& c, MoeParams& w, Widths d) {
  list.norm(w.ln_router, at + ".ln_router", c.norms.router, d.stream);
  list.linear(w.router, at + ".router", c.n_experts, d.stream, c.router_bias);
  if (c.router.correction) list.add(w.correction, at + ".correction.bias", Shape{c.n_experts});
  if (c.router.expert_scale) list.add(w.expert_scale, at + ".expert_scale.weight", Shape{c.n_experts});
  list.norm(w.ln_experts, at + ".ln_experts", c.norms.pre, d.stream);
  if (c.latent) list.linear(w.latent_in, at + ".latent_in", *c.latent, d.stream, c.latent_bias);
  const Widths of_experts{c.latent.value_or(d.stream), d.source};
  for (std::size_t e = 0; e < w.experts.size(); ++e) {
    list_params(list, at + ".experts." + std::to_string(e), c.expert, w.experts[e], of_experts);
  }
  if (c.latent) list.linear(w.latent_out, at + ".latent_out", d.stream, *c.latent, c.latent_bias);
  list.norm(w.ln_experts_post, at + ".ln_experts_post", c.norms.post, d.stream);
  if (!c.shared) return;
  list_params(list, at + ".shared", *c.shared, w.shared, d);
  list.norm(w.ln_shared_post, at + ".ln_shared_post", c.norms.shared_post, d.stream);
  if (c.shared_gate) list.linear(w.shared_gate, at + ".shared_gate", 1, d.stream, false);
}

void tap_input(Pass& p, BlockSite at, const MoeConfig&, SublayerInput& in) { tap_stream(p, at(FfnSite::mlp_in), in); }

std::optional<double> gguf_word(const MoeConfig& c, std::string_view word) {
  if (word == "n_experts") return static_cast<double>(c.n_experts);
  if (word == "top_k") return static_cast<double>(c.top_k);
  if (word == "d_ff" || word == "d_ff_expert") return static_cast<double>(c.expert.d_ff);
  if (word == "routed_scaling_factor" || word == "route_scale") return c.router.scale;
  if (word == "norm_topk_prob") return c.renormalize ? 1.0 : 0.0;
  if (word == "n_group") return static_cast<double>(c.router.groups);
  if (word == "topk_group") return static_cast<double>(c.router.top_groups);
  if (word == "one_shared_expert") return 1.0;
  if (word == "moe_latent_size" && c.latent) return static_cast<double>(*c.latent);
  if (word.ends_with("_shared_experts")) return static_cast<double>(c.shared ? c.shared->d_ff / c.expert.d_ff : 0);
  if (word == "shared_expert_intermediate_size" && c.shared) return static_cast<double>(c.shared->d_ff);
  if (word == "n_shared_experts") return c.shared ? static_cast<double>(c.shared->d_ff / c.expert.d_ff) : 0.0;
  if (word == "routed_scaling_factor") return c.router.scale;
  if (word == "norm_topk_prob") return c.renormalize ? 1.0 : 0.0;
  if (word == "n_group") return static_cast<double>(c.router.groups);
  if (word == "topk_group") return static_cast<double>(c.router.top_groups);
  if (word == "expert_gating_func") return c.router.score == RouterConfig::Score::sigmoid ? 2.0 : 1.0;
  return {};
}

/// Every rank computes all of the router, which is small.
void divide(WeightDivider& divider, MoeConfig& c, MoeParams& w) {
  const DenseConfig expert = c.expert;
  for (FfnParams& own : w.experts) divide(divider, c.expert = expert, own);
  if (c.shared) divide(divider, *c.shared, w.shared);
}

}  // namespace vitrine
