// Gradients in tests: those of a model, computed in every supported way, and those of PyTorch.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/run.h"

namespace vitrine::test {

using Ids = std::vector<std::int32_t>;
using Values = std::map<std::string, Value>;

/// How to run, and the terms of the loss.
struct BackwardOptions {
  const Kernels* kernels = &default_kernels();
  int threads = 1;
  Taps* taps = nullptr;
  bool recompute = false;
  float label_smoothing = 0;
  float z_loss = 0;
  KvTypes kv_types{};
  std::optional<SiteId> begin{};              ///< TrainingRequest::begin
  const Adapter* adapter = nullptr;           ///< In use; its matrices have the gradients, and not the model.
  AppliedControls controls{};                 ///< In use.
  std::vector<std::int32_t> next_sentence{};  ///< The label of each sequence; empty: that loss is not added.
};

/// A model's gradients, and passes that add to them.
class ModelGradients {
 public:
  explicit ModelGradients(const Model& model, const BackwardOptions& o = {});

  /// One pass over `sequences`, each a segment. The target of a row is the next id of its sequence; the last row of a
  /// sequence has none and does not count. The loss is scale · Σ weight · loss of a row; no `weights`: all are 1.
  void forward_backward(const std::vector<Ids>& sequences, float scale = 1.0f, std::vector<float> weights = {});

  Values gradients() const;  ///< By vitrine's names of parameters.
  const Gradients& raw() const { return gradients_; }

  double cross_entropy = 0, z_squares = 0, next_sentence = 0;  ///< Of all passes.
  std::vector<float> logits;                                   ///< Of the last pass, flat [T · vocab_size].

 private:
  const Model& model_;
  BackwardOptions o_;
  Gradients gradients_;
  ThreadPool pool_;
};

/// The gradients of the mean loss over `ids`.
Values gradients_of(const Model& model, const Ids& ids, const BackwardOptions& o = {});

/// Σ of the losses of the next tokens in `ids`, in nats, by a forward without a tape.
double loss_of(const Model& model, const Ids& ids, Taps* taps = nullptr);

/// How far values are from a reference: the largest |Δ| / (relative · max|reference tensor| + absolute · max over all
/// reference tensors). Infinite if names or shapes differ.
struct Distance {
  double worst = 0;
  std::string name;  ///< Of the tensor with the largest difference.
};
Distance distance(const Values& ours, const Values& reference, double relative = 1e-4, double absolute = 1e-7);
double largest(const std::vector<float>& values);
/// The first name whose values differ in any bit; empty if there is none.
std::string first_difference(const Values& a, const Values& b);

/// All tensors of a .safetensors file. Their rank is at most 4, because Shape has four sizes.
Values tensors_of(const std::string& path);

/// PyTorch's gradients of a golden case, by the names of the file. Its mean loss is called `loss`.
Values golden_gradient_file(const std::string& name);
/// Writes a checkpoint to `folder` whose weights are these gradients.
Checkpoint golden_gradient_checkpoint(const std::string& name, const std::string& folder);
/// The elements of a model's parameters, by vitrine's names.
Values params_of(const Model& model);

}  // namespace vitrine::test
