// The decoder of a dictionary (pass/dictionary.h): a sum over the features that are active.
//
//   r[t] = Σ_i a[t, i] · f[i] · W_dec[i] + b_dec      i ascending; then the features of earlier layers, in their order
//   da[t, i] += f[i] · Σ_o dr[t, o] · W_dec[i, o]
//   dW_dec[i] += Σ_t a[t, i] · f[i] · dr[t]            db_dec += Σ_t dr[t]           if they learn
//
// a [T, d_sae] sparse, W_dec [d_sae, d_out], r [T, d_out]. Each term is one fused multiply-add with the rounded factor
// a · f, starting from +0; the bias is added last.
#pragma once

#include <span>

#include "ops/encode_features.h"

namespace vitrine {

/// What a sum is taken over: a matrix whose rows belong to features, and their activations.
struct DecoderTerm {
  const Param* weight = nullptr;                ///< `[d_sae, d_out]`
  const std::vector<float>* factors = nullptr;  ///< f; empty: all 1.
  Features features{};
};

/// `[T, d_out]`
Tensor decode_features(Pass& p, const Dictionary& dictionary, std::span<const DecoderTerm> terms, std::int64_t n_rows);
/// The same for one term, without b_dec.
Tensor decode_without_bias(Pass& p, const Dictionary& dictionary, const DecoderTerm& term, std::int64_t n_rows);
/// y[t] += Σ_i a[t, i] · f[i] · W_dec[i]; not recorded.
void add_decoded(Pass& p, const Param& weight, const std::vector<float>& factors, const SparseRows& rows,
                 const Tensor& y);

}  // namespace vitrine
