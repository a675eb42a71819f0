// The elements of sparse activations by feature, for sums over rows: the gradients of a dictionary's weights.
#pragma once

#include <cstdint>
#include <vector>

#include "pass/dictionary.h"
#include "pass/pass.h"
#include "pass/sparse_rows.h"

namespace vitrine {

/// Elements are counted row after row, in the order of their features.
struct FeatureColumns {
  struct Element {
    std::int64_t at;  ///< Its number.
    std::int32_t row;
  };
  std::vector<std::int64_t> first_of_row{};  ///< `[T + 1]`
  std::vector<std::int64_t> first{};         ///< `[d_sae + 1]`: where each feature's elements begin.
  std::vector<Element> elements{};           ///< By feature, then by row.

  std::int64_t count() const { return first_of_row.back(); }
};

FeatureColumns columns_of(const SparseRows& rows, std::int64_t d_sae);

/// Given dp of each element `[n]`, where p = (x − b) W_enc + b_enc, adds for the parameters that learn
///
///   dW_enc[i] += Σ_t dp[t, i] · x[t]      db_enc[i] += Σ_t dp[t, i]
///
/// t ascending, and db −= Σ_i (Σ_t dp[t, i]) · W_enc[i]. `x` is x − b: rows of data, which have no gradient, so the
/// gradient of b needs no gradient of each row.
void add_encoder_gradients(Pass& p, const Dictionary& dictionary, const Tensor& x, const FeatureColumns& columns,
                           const Tensor& dp);

/// dW[i] += Σ_t a[t, i] · f[i] · dr[t], t ascending, if W `[d_sae, n]` learns. f empty: all 1.
void add_decoder_gradient(Pass& p, const Param& weight, const std::vector<float>& factors, const SparseRows& rows,
                          const FeatureColumns& columns, const Tensor& dr);

}  // namespace vitrine
