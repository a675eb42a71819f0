// Cross-entropy of the token that follows.
//
//   loss = log Σ_v exp(logits[v] − m) + m − logits[target]      m the largest logit; nats
#pragma once

#include <span>

#include "pass/pass.h"

namespace vitrine {

/// `[n]`: the loss of each row of `logits` `[n, V]` against its target id.
Tensor next_token_loss(Pass& p, const Tensor& logits, std::span<const std::int32_t> targets);

}  // namespace vitrine
