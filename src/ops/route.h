// The router of a mixture of experts: the experts of each token, and their shares in the result.
//
//   weights[t, e]   = exp(logits[t, e] − m) / Σ_e exp(logits[t, e] − m)        m the largest logit of the token
//   chosen[t, r]    = the expert of the r-th largest weight (ties: the lower number first)
//   share[t, r]     = weights[t, chosen[t, r]], divided by their sum over r if they are renormalized
//
//   y[t]            = Σ_r share[t, r] · result[t, r]                            r ascending
//
// Renormalized shares equal the softmax over the chosen logits alone, so top-k before softmax is the same function.
// Sources: Shazeer et al. 2017; Fedus, Zoph & Shazeer 2021; Jiang et al. 2024.
#pragma once

#include <vector>

#include "pass/pass.h"

namespace vitrine {

/// `[T, E]`: the softmax of each row.
Tensor softmax_rows(Pass& p, const Tensor& logits);
/// `[T, k]`: the indices of each row's k largest weights, largest first, as floats.
Tensor choose_largest(Pass& p, const Tensor& weights, std::int64_t k);
/// `[T, k]`: the chosen weights, divided by their sum if `renormalize`.
Tensor shares_of(Pass& p, const Tensor& weights, const Tensor& chosen, bool renormalize);
/// Adds the router's losses (LossRequest::balance, router_z) to the pass's result, if the pass has a loss. With a tape,
/// adds their gradients to those of `weights` and `logits` `[T, E]`, whose rows are those of `stack`.
void router_losses(Pass& p, const Tensor& logits, const Tensor& weights, const Tensor& chosen,
                   Stack stack = Stack::only);
/// `[n, d]`: a copy of rows `rows` of x `[T, d]`.
Tensor take_rows(Pass& p, const Tensor& x, const std::vector<std::int64_t>& rows);
/// `[T, d]`: the sum of each token's k `results` `[T · k, d]`, weighted by `shares` `[T, k]`.
Tensor mix_results(Pass& p, const Tensor& shares, const Tensor& results);

}  // namespace vitrine
