// How far the predictions of one model are from those of another.
#pragma once

#include "generate/context.h"

namespace vitrine {

struct Divergence {
  double kl = 0;        ///< The mean of KL(p ‖ q) over positions, in nats.
  double same_top = 0;  ///< The fraction of positions at which both have the same most likely token.
  std::int64_t positions = 0;
};

/// Compares the predictions p of one model with q of another at every position. Throws as score() does.
Divergence divergence(const GenerateContext& p, const GenerateContext& q, const Tokens& tokens);

}  // namespace vitrine
