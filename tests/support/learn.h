// Learning in tests: the gradients of a model under any way of running, and what PyTorch says they are.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/run.h"

namespace vitrine::test {

using Ids = std::vector<std::int32_t>;
using Values = std::map<std::string, Value>;

/// How to run, and what a loss is.
struct LearnOptions {
  const Kernels* kernels = &default_kernels();
  int threads = 1;
  Taps* taps = nullptr;
  bool recompute = false;
  float label_smoothing = 0;
  float z_loss = 0;
  DType kv_dtype = DType::f32;
};

/// A model's gradients, and passes that add to them.
class Learner {
 public:
  explicit Learner(const Model& model, const LearnOptions& o = {});

  /// One pass over `sequences`, each a segment: a row's target is the next id of its sequence, and the last row of a
  /// sequence does not count. Gradients are of scale · Σ losses. `weights`, where there are any, one a row.
  void learn(const std::vector<Ids>& sequences, float scale = 1.0f, std::vector<float> weights = {});

  Values gradients() const;  ///< By our names.
  const Gradients& raw() const { return gradients_; }

  double cross_entropy = 0, z_squares = 0;  ///< Of all passes.
  std::vector<float> logits;                ///< Of the last pass, flat [T · vocab_size].

 private:
  const Model& model_;
  LearnOptions o_;
  Gradients gradients_;
  ThreadPool pool_;
};

/// The gradients of the mean loss over `ids`.
Values gradients_of(const Model& model, const Ids& ids, const LearnOptions& o = {});

/// Σ losses of what follows each of `ids`, nats: a forward without a tape.
double loss_of(const Model& model, const Ids& ids, Taps* taps = nullptr);

/// By how much values leave a reference: the largest |Δ| / (relative · max|reference tensor| + absolute · the largest
/// of all). Infinite where names or shapes differ.
struct Distance {
  double worst = 0;
  std::string name;  ///< Where.
};
Distance distance(const Values& ours, const Values& reference, double relative = 1e-4, double absolute = 1e-7);
double largest(const std::vector<float>& values);
/// The first name under which the two differ in a bit; empty where none does.
std::string first_difference(const Values& a, const Values& b);

/// All tensors of a .safetensors file; Shape holds four sizes at most.
Values tensors_of(const std::string& path);

/// The golden case's gradients as PyTorch has them, under the names of the file; the mean loss is `loss`.
Values golden_gradient_file(const std::string& name);
/// A checkpoint whose weights are these gradients, made in `folder`.
Checkpoint golden_gradient_checkpoint(const std::string& name, const std::string& folder);
/// The elements of a model's parameters, by our names.
Values params_of(const Model& model);

}  // namespace vitrine::test
