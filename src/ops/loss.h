// Cross-entropy of the next token.
//
//   log_z = log Σ_v exp(logits[v] − m) + m                          m: the largest logit; in nats
//   loss  = log_z − (1 − s) · logits[target] − s · mean_v logits[v]    s: label smoothing, 0 by default
//   dlogits[v] += dloss · (p[v] − (1 − s) · [v = target] − s / V)      p[v] = exp(logits[v] − log_z)
//   dlogits[v] += dlog_z · p[v]
//
// Sources: Szegedy et al. 2015 (label smoothing, as in torch.nn.CrossEntropyLoss); Chowdhery et al. 2022 (z-loss, a
// multiple of log_z²).
#pragma once

#include <span>

#include "pass/pass.h"

namespace vitrine {

/// `[n]`: the loss of each row of `logits` `[n, V]` against its target id.
Tensor next_token_loss(Pass& p, const Tensor& logits, std::span<const std::int32_t> targets,
                       float label_smoothing = 0.0f);
/// `[n]`: log_z of each row.
Tensor log_partition(Pass& p, const Tensor& logits);

}  // namespace vitrine
