// The router of a mixture of experts: which experts a token goes to, and how much each of them counts.
//
//   weights[t, e]   = exp(logits[t, e] − m) / Σ_e exp(logits[t, e] − m)        m the largest logit of the token
//   chosen[t, r]    = the expert of the r-th largest weight (of equal ones the lower number first)
//   share[t, r]     = weights[t, chosen[t, r]], divided by their sum over r where they are renormalized
//
//   y[t]            = Σ_r share[t, r] · result[t, r]                            r ascending
//
// Renormalized shares are the softmax over the chosen logits alone: choosing before the softmax is the same function.
// Sources: Shazeer et al. 2017; Fedus, Zoph & Shazeer 2021; Jiang et al. 2024.
#pragma once

#include <vector>

#include "pass/pass.h"

namespace vitrine {

/// `[T, E]`: the softmax of each row.
Tensor softmax_rows(Pass& p, const Tensor& logits);
/// `[T, k]`: the numbers of each row's k largest weights, largest first, as floats.
Tensor choose_largest(Pass& p, const Tensor& weights, std::int64_t k);
/// `[T, k]`: the chosen weights, where `renormalize` says so divided by their sum.
Tensor shares_of(Pass& p, const Tensor& weights, const Tensor& chosen, bool renormalize);
/// The losses of a router that a pass with a loss asks for (LossRequest::balance, router_z): adds them to it, and, with
/// a tape, their gradients to those of `weights` and `logits` `[T, E]`.
void router_losses(Pass& p, const Tensor& logits, const Tensor& weights, const Tensor& chosen);
/// `[n, d]`: rows `rows` of x `[T, d]`, copied.
Tensor take_rows(Pass& p, const Tensor& x, const std::vector<std::int64_t>& rows);
/// `[T, d]`: what each token's experts have made, `results` `[T · k, d]`, summed by their shares `[T, k]`.
Tensor mix_results(Pass& p, const Tensor& shares, const Tensor& results);

}  // namespace vitrine
