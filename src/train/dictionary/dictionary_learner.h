// One step of a dictionary that learns: losses, gradients, update.
//
//   L = mean_t ‖y'[t] − y[t]‖²  +  of standard   c · mean_t (Σ_i (a[t, i] · ‖W_dec[i]‖)^p)^(1/p)
//                               +  of jumprelu   c · mean_t s(t):  step n(t), tanh Σ_i tanh(α · a[t, i] · ‖W_dec[i]‖),
//                                                quadratic 2 (n(t) − n₀)² / n₀;  n(t) = how many features are active
//                                                + c' · mean_t Σ_{i dead} relu(θ[i] − p[t, i]) · ‖W_dec[i]‖
//                               +  of topk       c · min(1, m / k') · mean_t ‖e'[t] − (y[t] − y'[t])‖², where e' is
//                                                the sum of the k' = min(d_in / 2, m) largest of the m dead features
//
// y is x of an SAE. A feature is dead if it was active in none of the last `dead_feature_window` steps and the one
// before. Sources: decoderesearch/SAELens, sae_lens/saes and sae_lens/training/sae_trainer.py; Gao et al. 2024 (topk).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "base/caller_poll.h"
#include "metrics/metrics.h"
#include "ops/encode_features.h"
#include "tensor/arena.h"
#include "train/dictionary/learned_dictionary.h"
#include "train/optimizer.h"

namespace vitrine {

class DictionaryLearner {
 public:
  /// The learner borrows its arguments, which must outlive it.
  DictionaryLearner(LearnedDictionary& dictionary, const OptimizerConfig& optimizer, ThreadPool& pool,
                    const Kernels& kernels, const std::atomic<bool>* interrupt, CallerPoll* poll);

  struct Step {
    double loss = 0;              ///< NaN if the step is skipped.
    std::vector<Metric> terms{};  ///< Those of the loss under SAELens's names, l0, and others.
    double grad_norm = 0;         ///< Before clipping.
    std::string skipped{};        ///< Why update() changes nothing; "" if it does.
  };
  /// The losses and gradients on x `[B, d_in]` and y `[B, d_out]`; for an SAE the same tensor. Throws Interrupted.
  Step forward_backward(const Tensor& x, const Tensor& y, std::int64_t step);
  /// Changes the parameters, and what is known of dead features. Adds the number of dead ones to the terms.
  void update(Step& step, double lr);

  LearnedDictionary& learned() { return learned_; }
  Optimizer& optimizer() { return optimizer_; }
  /// For each feature, how many steps ago it was active.
  std::vector<float>& since_active() { return since_active_; }

 private:
  struct Losses;

  Pass pass();
  void find_dead();
  void add_mse(Pass& p, const Tensor& out, const Tensor& y, const Tensor& error, Losses& losses);
  void add_l1(Pass& p, const LearnedFeatures& features, std::int64_t step, Losses& losses);
  void add_l0(Pass& p, const LearnedFeatures& features, std::int64_t step, Losses& losses);
  void add_pre_act(Pass& p, const Features& dead, Losses& losses);
  void add_auxiliary(Pass& p, const Features& dead, const Tensor& error, Losses& losses);
  void add_norm_gradient(const std::vector<double>& by_norm);
  void note_active(const LearnedFeatures& features, Step& result);

  LearnedDictionary& learned_;
  Optimizer optimizer_;
  ThreadPool& pool_;
  const Kernels& kernels_;
  const std::atomic<bool>* interrupt_;
  CallerPoll* poll_;
  Gradients gradients_;
  Tape tape_{gradients_};
  Arena arena_;
  std::vector<float> since_active_;
  std::vector<std::int32_t> dead_;
  std::vector<bool> active_;           // of the step
  std::optional<double> least_value_;  // of its activations
};

}  // namespace vitrine
