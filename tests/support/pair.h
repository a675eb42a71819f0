// Running encoder–decoders in tests.
#pragma once

#include "support/backward.h"

namespace vitrine::test {

/// What the encoder and the decoder read.
struct Pair {
  Ids source, target;
};

/// Logits of the target, flat [T · vocab_size], in one forward without a cache.
std::vector<float> logits_of(const Model& model, const Pair& pair, const RunOptions& o = {});
/// The same for several pairs in one pass.
std::vector<std::vector<float>> batch_logits_of(const Model& model, const std::vector<Pair>& pairs,
                                                const RunOptions& o = {});
/// The same in chunks of `chunk` tokens of the target, with a cache.
std::vector<float> chunked_logits_of(const Model& model, const Pair& pair, std::int64_t chunk,
                                     const RunOptions& o = {});

/// A model's gradients, and passes that add to them. The target of a row is the next id of its target.
class PairGradients {
 public:
  explicit PairGradients(const Model& model, const BackwardOptions& o = {});

  void forward_backward(const std::vector<Pair>& pairs, float scale = 1.0f);

  Values gradients() const;  ///< By vitrine's names of parameters.

  double cross_entropy = 0;

 private:
  const Model& model_;
  BackwardOptions o_;
  Gradients gradients_;
  ThreadPool pool_;
};

}  // namespace vitrine::test
