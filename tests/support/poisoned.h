// A model that computes NaN where a chosen id is read.
#pragma once

#include <limits>
#include <vector>

#include "checkpoint/load.h"
#include "model/model.h"

namespace vitrine::test {

/// The model of a checkpoint with an f32 embedding, in which the row of one id begins with NaN. The checkpoint must
/// outlive it.
class PoisonedModel {
 public:
  PoisonedModel(const Checkpoint& checkpoint, std::int32_t id)
      : embedding_(poisoned(*checkpoint.model, id)), model_(checkpoint.model->config(), params_of(checkpoint), {}) {}

  const Model& model() const { return model_; }

 private:
  static std::vector<float> poisoned(const Model& model, std::int32_t id) {
    const Param& embed = model.params().embed;
    const auto* const stored = reinterpret_cast<const float*>(embed.view.data);
    std::vector<float> embedding(stored, stored + embed.shape.count());
    embedding[static_cast<std::size_t>(id * embed.shape[1])] = std::numeric_limits<float>::quiet_NaN();
    return embedding;
  }
  ModelParams params_of(const Checkpoint& checkpoint) const {
    ModelParams params = checkpoint.model->params();
    params.embed.view.data = reinterpret_cast<const std::byte*>(embedding_.data());
    return params;
  }

  std::vector<float> embedding_;
  Model model_;
};

}  // namespace vitrine::test
