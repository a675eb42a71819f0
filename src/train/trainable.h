// A model whose parameters lie in memory of its own, so that an optimizer can move them.
//
// The trainer makes one, from a config (draw_trainable) or from a checkpoint (copy_trainable), runs
// trainable.model().forward(pass with tape, …), hands trainable.params() and the gradients to the optimizer, which
// writes the very memory that the model's views point to, and saves with save_model into a FolderWriter's folder,
// beside which it puts its own state (moments; the masters, which are params()[i].value).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/family.h"
#include "model/initialize.h"
#include "model/model.h"
#include "parallel/thread_pool.h"
#include "train/train_param.h"

namespace vitrine {

class Trainable {
 public:
  /// All elements zero. `dtype`: f32, or bf16, which has float32 masters beside it. Throws as validate() does;
  /// OutOfCapacity where memory is refused; InternalError for another type.
  Trainable(const ModelConfig& config, DType dtype);

  /// Sees every change of the parameters. No pass may run while they are changed.
  const Model& model() const { return *model_; }
  std::shared_ptr<const Model> shared_model() const { return model_; }
  /// In the order of for_each_param.
  std::span<const TrainParam> params() const { return params_; }
  DType dtype() const { return dtype_; }
  /// Rounds all masters into the weights; nothing for f32. For who has filled the values.
  void round_weights(ThreadPool& pool, const Kernels& k) const;

 private:
  DType dtype_;
  std::vector<TrainParam> params_;
  std::shared_ptr<const Model> model_;  // owns the memory
};

/// Random parameters: the same elements as `init` writes for that seed.
Trainable draw_trainable(const ModelConfig& config, DType dtype, const InitOptions& options, std::uint64_t seed,
                         ThreadPool& pool, const Kernels& k);
/// A copy of a loaded model's parameters. Throws Unsupported for quantized ones, naming the first.
Trainable copy_trainable(const Model& model, DType dtype, ThreadPool& pool, const Kernels& k);

/// What a checkpoint holds beside the parameters.
struct ModelFiles {
  const Family& family;
  Json config;            ///< config.json
  std::string tokenizer;  ///< A file, or a folder that has one; "": none.
};

/// Writes model.safetensors, config.json and the tokenizer's files into `folder`, which must exist: what
/// load_checkpoint reads. Throws as FileWriter does.
void save_model(const Trainable& trainable, const ModelFiles& files, const std::string& folder, ThreadPool& pool);

}  // namespace vitrine
