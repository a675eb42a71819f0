// The cross-entropy of n-gram models on a text, for comparison with the loss of a model.
//
//   p_k(w | h) = (c(hw) − D(c(hw))) / Σ_v c(hv) + γ(h) · p_{k−1}(w | h')      h' = h without its first token
//   γ(h)       = (D1 N1(h) + D2 N2(h) + D3 N3+(h)) / Σ_v c(hv)                p_0 = 1 / vocab_size
//
// N_i(h): tokens that follow h with c = i. For the highest order, c is the number of occurrences; for lower orders it
// is the number of different tokens that precede hw. D depends on the order and on n_i, the number of k-grams with c =
// i: Y = n1 / (n1 + 2 n2), D1 = 1 − 2Y n2/n1, D2 = 2 − 3Y n3/n2, D3 = 3 − 4Y n4/n3 for all c ≥ 3; if the text is too
// small for these, they are 0.5, 1 and 1.5. Interpolated modified Kneser–Ney: Chen & Goodman 1998.
//
//   const NgramCounts counts(train_ids, vocab_size);
//   counts.cross_entropy(validation_ids, 5, pool)
//
// There is no hash table: positions are sorted by their token, then the one before it, and so on, so the k-grams of
// every order are runs. Orders are processed one after the other. This takes at most about 45 bytes per token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/thread_pool.h"

namespace vitrine {

class NgramCounts {
 public:
  static constexpr int kMaxOrder = 5;

  /// `ids` must outlive this object. Throws BadInput for no ids, more than 2^31 − 2, or one outside the vocabulary.
  NgramCounts(std::span<const std::int32_t> ids, std::int64_t vocab_size);

  /// Nats per token of `held_out`, whose first token is only context. `order` from 1 (unigram) to kMaxOrder. The bits
  /// do not depend on the number of threads. Throws BadInput for fewer than two ids, or one outside the vocabulary.
  double cross_entropy(std::span<const std::int32_t> held_out, int order, ThreadPool& pool) const;

 private:
  struct Order;

  bool has_kgram(std::uint32_t position, int k) const { return position + 1 >= static_cast<std::uint32_t>(k); }
  Order count(int k, bool is_highest, std::vector<std::uint32_t> contexts) const;

  std::span<const std::int32_t> ids_;
  std::int64_t vocab_size_;
  std::vector<std::uint32_t> sorted_;  // positions, by their token, then the one before it, …
  std::vector<std::uint8_t> shared_;   // tokens that a position of sorted_ has in common with the one before
};

}  // namespace vitrine
