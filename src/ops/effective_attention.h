// What the scan of a state would be as attention: M `[T, H, T]`, with which output i of head h is Σ_j M[i, h, j] v_j.
//
//   M[i, h, j] = q_iᵀ · A_i · … · A_{j+1} · k_j · β_j for j ≤ i, else 0; A_t = decay_t (I − k_t (β_t · k_t)ᵀ) in the
//   order of ops/state_scan.h; without the delta rule A_t = decay_t and β_j = 1
//
// It is exact: the scan is linear in the values, so M is its output for unit vectors as values, by the same kernel.
#pragma once

#include "ops/state_scan.h"

namespace vitrine {

/// Shows M of each segment to taps, if they want it. Nothing is computed from M: it has no gradient, and a tap that
/// changes it throws BadInput. Its columns are the tokens of the pass, also if the state does not begin with zeros.
/// `steps`: what the values have been multiplied by, `[T, H]`, or, of elements, `[T, P]`, whose M is `[T, P, T]`.
void show_effective_attention(Pass& p, BlockSite at, Site site, const StateShape& shape, const StateInputs& in,
                              const Tensor& steps = {});

}  // namespace vitrine
