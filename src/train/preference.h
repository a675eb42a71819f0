// Losses of pairs of answers: by how much a model prefers the chosen one.
//
// With c and r the log-probabilities of the two answers (Σ over the learned ids), c' and r' those of the reference,
// Δ = (c − c') − (r − r'), and ¯ for means per id:
//   dpo    −(1−ε) ln σ(βΔ) − ε ln σ(−βΔ)         Rafailov et al. 2023; ε: Mitchell 2023
//   ipo    (Δ̄ − 1/2β)²                            Azar et al. 2023, with means as in TRL
//   hinge  max(0, 1 − βΔ)                         Zhao et al. 2023
//   simpo  −ln σ(β(c̄ − r̄) − γ)                   Meng et al. 2024
//   orpo   NLL − β ln σ(log odds(c̄) − log odds(r̄))  Hong et al. 2024; NLL: −Σ c / (the ids of all chosen answers)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vitrine {

struct PreferenceOptions {
  enum class Objective : std::uint8_t { dpo, ipo, hinge, simpo, orpo };
  enum class Reference : std::uint8_t { base, start };  ///< The model without the adapter, or as training starts.

  Objective objective = Objective::dpo;
  double beta = 0.1;
  double label_smoothing = 0;  ///< ε of dpo.
  double gamma = 0;            ///< γ of simpo.
  Reference reference = Reference::base;

  bool has_reference() const { return objective != Objective::simpo && objective != Objective::orpo; }
  bool operator==(const PreferenceOptions&) const = default;
};

/// Log-probabilities of the two answers of a pair, in nats.
struct PairScore {
  double chosen = 0, rejected = 0;
};

/// The learned ids of the two answers, and of the chosen answers of the batch in the mean.
struct AnswerLengths {
  std::int64_t chosen = 1, rejected = 1;
  double mean_chosen = 1;
};

struct PairLoss {
  double loss = 0;
  double margin = 0;  ///< βΔ; of ipo Δ̄; of simpo β(c̄ − r̄); of orpo the log odds' difference.
  double by_chosen = 0, by_rejected = 0;  ///< ∂loss/∂c, ∂loss/∂r.
};

/// The mean over the pairs of a batch is its loss. The reference is unused without has_reference().
PairLoss pair_loss(const PreferenceOptions& options, const PairScore& score, const PairScore& reference,
                   const AnswerLengths& lengths);

/// Sums over pairs.
struct PairSums {
  double loss = 0, margin = 0;
  std::int64_t n_right = 0, n = 0;  ///< n_right: pairs whose margin is above 0.

  void add(const PairLoss& pair);
  void add(const PairSums& sums);
};

}  // namespace vitrine
