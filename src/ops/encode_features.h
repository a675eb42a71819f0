// The encoder of a dictionary: which features of a row are active, and how much (pass/dictionary.h).
//
//   q = x W_enc        p = q + b_enc, of gated ones p = q · gain + b_enc        a = selected p, else 0
//   dq += dp (· gain)  dp[t, i] += da[t, i] · d a / d p where feature i is active
//
// x [T, d_in], q, p, a [T, d_sae]. d a / d p is 1, or the norm that a key of top-k is multiplied by; thresholds, gates
// and the choice of top-k have no gradient. Of equal keys at the edge of a top-k the smaller index is chosen. Products
// are computed in float32, whatever Pass::compute is. Sources: those of pass/dictionary.h.
#pragma once

#include <memory>
#include <vector>

#include "pass/dictionary.h"
#include "pass/pass.h"

namespace vitrine {

/// The activations of rows. `dense` has data if a tap or a tape needs them all, `[T, d_sae]`.
struct Features {
  std::shared_ptr<const SparseRows> rows{};
  Tensor dense{};
};

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

}  // namespace vitrine
