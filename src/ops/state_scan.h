// The scan of a state over the tokens of a text: what a delta net, Mamba and Mamba-2 remember.
//
//   S ← decay · S                                          S [K, P] of each head, zeros before the text
//   w = v, or, by the delta rule, β · (v − Sᵀ k)
//   S ← S + k wᵀ
//   o = Sᵀ q                                               q, k [T, G, K], v, o [T, H, P], β [T, H]
//
// A group of q and k serves H / G consecutive heads. The decay is exp(g): a number g of each head `[T, H]` (delta nets,
// Mamba-2), of each row of S `[T, H, K]` (KDA), or exp(step · A) with a step of each lane `[T, 1, P]` and A [P, K] of
// each element (Mamba-1, whose channels are the lanes of one head).
//
// There is one form, by tokens, for prompts, decoding and training, so the bits do not depend on how a text is cut into
// passes. Columns of S do not depend on each other: they are lanes of vectors, and a block of them stays in the L1
// cache while all rows of the pass go by. The order of sums is in kernels/state_scan.h.
//
// Backward: the forward keeps S every state_interval() tokens of a text. The states between are computed again, from
// the last part of the text to the first, and the scan is walked back. With dS, the gradient of S after a token:
//   dS += q doᵀ           dq = S do
//   dw = dSᵀ k            dβ = dw · (v − u), dv = β dw, du = −β dw, u = Sᵀ k of the decayed state   (delta rule)
//   dk = dS w + S du      ddecay = (dS + k duᵀ) ⊙ S of the token before; dS of it: decay · (dS + k duᵀ)
// Sums over lanes add blocks of 16 in ascending order, then heads of a group in ascending order.
//
// Sources: Yang et al. 2024 (Gated DeltaNet); Kimi Team 2025 (KDA); Gu & Dao 2023 (Mamba), Dao & Gu 2024 (Mamba-2);
// transformers, models/qwen3_next, mamba, mamba2.
#pragma once

#include "kernels/state_scan.h"
#include "ops/state_gates.h"
#include "pass/pass.h"

namespace vitrine {

struct StateShape {
  std::int64_t heads = 0, groups = 0;
  std::int64_t rows = 0, lanes = 0;  ///< K and P.
  StateDecay decay = StateDecay::head;
  bool alternates = false;  ///< The heads of a group are `groups` apart; else next to each other.

  std::int64_t group_of(std::int64_t head) const { return alternates ? head % groups : head / (heads / groups); }
  /// The state of a layer as the cache keeps it: lanes innermost. `lanes_first`: its site has lanes before rows, and no
  /// heads where there is but one of all channels (Mamba-1).
  StateConfig cached(bool lanes_first = false) const {
    StateConfig config{"state", {heads, rows, lanes}};
    if (lanes_first) config.shown = decay == StateDecay::element ? Shape{lanes, rows} : Shape{heads, lanes, rows};
    return config;
  }
};

struct StateInputs {
  Tensor queries, keys;          ///< `[T, G, K]`
  Tensor values;                 ///< `[T, H, P]`
  Tensor decays;                 ///< The logarithms `[T, H]` or `[T, H, K]`; of elements, the steps `[T, H · P]`.
  Tensor betas{};                ///< `[T, H]`, of the delta rule; else no data.
  std::optional<Rates> rates{};  ///< Of elements: A `[P, K]`, as stored.
};

/// The sites of a state, of which no copy is made if no tap wants them.
struct StateSites {
  Site state, carry;
  std::optional<Site> write{};
  bool lanes_first = false;  ///< A value is `[T, H, P, K]`, not `[T, H, K, P]`.
};

/// o `[T, H, P]`. Reads and writes state `number` of the layer in the caches of the pass.
Tensor state_scan(Pass& p, BlockSite at, const StateShape& shape, const StateSites& sites, const StateInputs& in,
                  int number);

/// With a tape, S is kept at each multiple of this number of tokens: 64, or fewer for states of many rows.
std::int64_t state_interval(std::int64_t rows);
/// The most rows of a state.
inline constexpr std::int64_t kMaxStateRows = 1024;

}  // namespace vitrine
