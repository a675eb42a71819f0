// The router of a mixture of experts: the experts of each token, and their shares in the result.
//
//   score[t, e]     = exp(logits[t, e] − m) / Σ_e exp(logits[t, e] − m), m the largest logit of the token; or
//                     1 / (1 + exp(−logits[t, e]))
//   rank[t, e]      = score[t, e] + correction[e]; −∞ outside the best groups of experts
//   chosen[t, r]    = the expert of the r-th largest rank (ties: the lower number first)
//   share[t, r]     = score[t, chosen[t, r]] · scale, divided by max(Σ_r score[t, chosen[t, r]], min) + eps if they are
//                     renormalized
//
//   y[t]            = Σ_r share[t, r] · result[t, r]                            r ascending
//
// The correction only chooses: it has no gradient, and no share contains it. A group of consecutive experts is as good
// as its largest rank, or as the sum of its two largest.
// Renormalized softmax shares equal the softmax over the chosen logits alone, so top-k before softmax is the same
// function.
// Sources: Shazeer et al. 2017; Fedus, Zoph & Shazeer 2021; Jiang et al. 2024; DeepSeek-AI 2024 (groups), Wang et al.
// 2024 (correction).
#pragma once

#include <array>
#include <vector>

#include "base/fields.h"
#include "pass/pass.h"

namespace vitrine {

/// How a router scores, chooses and weighs experts.
struct RouterConfig {
  enum class Score : std::uint8_t { softmax, sigmoid };
  enum class GroupRank : std::uint8_t { largest, two_largest };

  Score score = Score::softmax;
  bool correction = false;      ///< A number for each expert that is added to its score for the choice alone.
  std::int64_t groups = 1;      ///< Of consecutive experts, equally many in each.
  std::int64_t top_groups = 1;  ///< A token's experts are all in so many groups.
  GroupRank group_rank = GroupRank::largest;
  float eps = 0;              ///< Added to the sum by which shares are divided.
  float min = 0;              ///< The least of that sum.
  float scale = 1;            ///< Of the shares.
  float input_scale = 1;      ///< Factor of what the router reads.
  bool expert_scale = false;  ///< A number for each expert that multiplies its share.

  bool operator==(const RouterConfig&) const = default;
};

constexpr auto words(RouterConfig::Score) { return std::to_array<std::string_view>({"softmax", "sigmoid"}); }
constexpr auto words(RouterConfig::GroupRank) { return std::to_array<std::string_view>({"largest", "two_largest"}); }

template <ConfigOf<RouterConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"score", "of an expert, from the router's logits"}, c.score);
  visit(Field{"correction", "a number for each expert, added to its score for the choice alone; it has no gradient"},
        c.correction);
  visit(Field{"groups", "groups of consecutive experts", "1"}, c.groups);
  if (c.groups > 1) {
    visit(Field{"top_groups", "the groups that a token's experts may be in"}, c.top_groups);
    visit(Field{"group_rank", "what a group is chosen by: its largest score, or the sum of its two largest"},
          c.group_rank);
  }
  visit(Field{"eps", "added to the sum by which the weights are divided"}, c.eps);
  visit(Field{"min", "the least of that sum"}, c.min);
  visit(Field{"scale", "factor of the weights"}, c.scale);
  visit(Field{"input_scale", "factor of what the router reads", {}, false}, c.input_scale);
  visit(Field{"expert_scale", "a number for each expert that multiplies its weight", {}, false}, c.expert_scale);
}

/// `[T, E]`: the softmax of each row.
Tensor softmax_rows(Pass& p, const Tensor& logits);
/// `[T, k]`: the experts of each row's k largest ranks, largest first, as floats. `correction` `[E]` may be absent.
Tensor choose_experts(Pass& p, const RouterConfig& c, const Tensor& scores, const Param& correction, std::int64_t k);
/// `[T, E]`: the shares of the chosen experts, 0 for the others.
Tensor chosen_weights(Pass& p, const RouterConfig& c, const Tensor& scores, const Tensor& chosen, bool renormalize);
/// `[T, k]`: the chosen weights, divided by their sum if `renormalize`.
Tensor shares_of(Pass& p, const Tensor& weights, const Tensor& chosen, bool renormalize);
/// Adds the router's losses (LossRequest::balance, router_z) to the pass's result, if the pass has a loss. With a tape,
/// adds their gradients to those of `weights` (the softmax of the logits) and `logits`
/// `[T, E]`, whose rows are those of `stack`.
void router_losses(Pass& p, const Tensor& logits, const Tensor& weights, const Tensor& chosen,
                   Stack stack = Stack::only);
/// Counts the choices of `n_experts` for LossRequest::counts_choices.
void count_choices(const Pass& p, const Param& correction, const Tensor& chosen, std::int64_t n_experts);
/// `[n, d]`: a copy of rows `rows` of x `[T, d]`.
Tensor take_rows(Pass& p, const Tensor& x, const std::vector<std::int64_t>& rows);
/// `[T, d]`: the sum of each token's k `results` `[T · k, d]`, weighted by `shares` `[T, k]`.
Tensor mix_results(Pass& p, const Tensor& shares, const Tensor& results);

}  // namespace vitrine
