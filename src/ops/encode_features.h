// The encoder of a dictionary: which features of a row are active, and how much (pass/dictionary.h).
//
//   q = x W_enc        p = q + b_enc, of gated ones p = q · gain + b_enc        a = selected p, else 0
//   dq += dp (· gain)  dp[t, i] += da[t, i] · d a / d p where feature i is active
//
// x [T, d_in], q, p, a [T, d_sae]. d a / d p is 1, or the norm that a key of top-k is multiplied by; thresholds, gates
// and the choice of top-k have no gradient. Of equal keys at the edge of a top-k the smaller index is chosen. Products
// are computed in float32, whatever Pass::compute is. Sources: those of pass/dictionary.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/feature_columns.h"
#include "pass/dictionary.h"
#include "pass/pass.h"

namespace vitrine {

/// The activations of rows. `dense` has data if a tap or a tape needs them all, `[T, d_sae]`; `values` and `columns` if
/// the tape has only those of `rows`, one row after another: `[n]`.
struct Features {
  std::shared_ptr<const SparseRows> rows{};
  Tensor dense{};
  Tensor values{};
  std::shared_ptr<const FeatureColumns> columns{};
};

/// Calls visit(number, row, element) for each element.
template <class Visit>
void for_elements(const Features& features, Visit&& visit) {
  std::int64_t at = 0;
  for (std::size_t t = 0; t < features.rows->rows.size(); ++t) {
    for (const SparseValue& value : features.rows->rows[t]) visit(at++, t, value);
  }
}

/// Rows whose features are computed; those of the others are 0.
using ActiveRows = std::vector<bool>;

/// The pre-activations of all features. `q` has data of gated dictionaries only.
struct PreActivations {
  Tensor p{}, q{};
};
PreActivations pre_activations(Pass& p, const Dictionary& dictionary, const Tensor& x);
/// The activations from given pre-activations. Throws NotFinite for one that is not finite.
Features select_features(Pass& p, const Dictionary& dictionary, const PreActivations& pre, const ActiveRows& active);
/// The same activations, to the bit, from x, without memory for p: it is computed in panels of features. Not with a
/// tape.
Features encode_features(Pass& p, const Dictionary& dictionary, const Tensor& x, const ActiveRows& active);

// A dictionary that learns
//
// x is a constant: the rows of features_in(), outside the tape. The gradients of W_enc, b_enc and b are sums over the
// active elements (ops/feature_columns.h). Of `jump`, thresholds have the gradient of a straight-through estimator:
// with a rectangle of the bandwidth w around the threshold θ,
//
//   dθ[i] −= Σ_t θ[i] / w · da[t, i]   and of the counts   dθ[i] −= Σ_t 1 / w · dcount[t]      where |p − θ| < w / 2
//
// If it reaches the input, dp has the same terms with the opposite sign. Of top-k, both the factor ‖W_dec[i]‖ of a key
// and its inverse in the decoder are constants: their gradients cancel. Source: Rajamanoharan et al. 2024;
// decoderesearch/SAELens, sae_lens/saes/jumprelu_sae.py.

struct EncoderTraining {
  std::int64_t n_of_batch = 0;        ///< > 0: so many keys of all rows are chosen, in place of k of each row.
  const Param* thresholds = nullptr;  ///< Those of the selection, as a parameter; null: they do not learn.
  float bandwidth = 0;                ///< Of their estimator.
  bool reaches_input = false;
  std::span<const std::int32_t> dead{};  ///< Features that have been inactive for long, ascending.
  std::int64_t n_dead = 0;               ///< So many of their keys of each row; 0: all p below the thresholds.
};

/// `counts` `[T]`: how many features of each row are active. `dead`: keys of dead features, of any sign.
struct LearnedFeatures {
  Features active{}, dead{};
  Tensor counts{};
};
/// The activations as a value of the tape. Not of gated dictionaries. Throws NotFinite.
LearnedFeatures encode_learned(Pass& p, const Dictionary& dictionary, const Tensor& x, const EncoderTraining& training);

}  // namespace vitrine
