// A model whose learning parameters are in writable memory, so that an optimizer can update them.
//
// The trainer creates one from a config (draw_trainable) or from a checkpoint (copy_trainable), runs
// trainable.model().forward_backward(pass, ids), and passes trainable.params() and their gradients to the optimizer,
// which writes the memory that the model's views point to. save_model writes the model into a checkpoint's folder; the
// trainer adds its own state (the moments, and the masters, which are params()[i].value).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/adapters/create.h"
#include "checkpoint/adapters/writer.h"
#include "checkpoint/family.h"
#include "checkpoint/hugging_face/writer.h"
#include "model/initialize.h"
#include "model/model.h"
#include "model/text_steps.h"
#include "parallel/thread_pool.h"
#include "tensor/param.h"
#include "train/sentence_files.h"

namespace vitrine {

/// Selects the parameters that learn, by name; empty: all. Only these parameters have gradients, masters and moments.
using IsTrainable = std::function<bool(const std::string& name)>;

/// A parameter that learns: dense, row-major, in memory that Trainable owns.
struct TrainParam {
  std::string name;              ///< As in for_each_param's list.
  Shape shape;                   ///< `[out, in]` of a product, `[n]` of a vector.
  float* value = nullptr;        ///< The optimizer updates it: the weight, or the float32 master of a bf16 weight.
  std::byte* rounded = nullptr;  ///< The bf16 weight: value rounded to nearest even; null if value is the weight.
  const Param* param = nullptr;  ///< The model's parameter, which passes read.
  std::optional<float> limit{};  ///< The optimizer keeps the elements within ± it.

  std::int64_t count() const { return shape.count(); }
  /// Weight decay applies to matrices, not to gains, biases and the rates of states.
  bool decays() const { return shape.rank() >= 2 && !name.ends_with(".a_log"); }
};

class Trainable {
 public:
  /// All parameters learn and are zero. `dtype`: f32, or bf16, which adds float32 masters. Throws as validate() does;
  /// OutOfCapacity if memory is exhausted; InternalError for another type.
  Trainable(const ModelConfig& config, DType dtype);
  /// The parameters of `base` that learn are zero, of type `dtype`; the others are shared with `base`, as they are. All
  /// parameters of `steps` learn, which are after the model's, and zero.
  Trainable(std::shared_ptr<const Model> base, DType dtype, const IsTrainable& learns, TextSteps steps = {});
  Trainable(const ModelConfig& config, DType dtype, TextSteps steps);

  /// The matrices of an adapter learn, and what it has in place of the base's head for labels; the base is shared as it
  /// is, in any type, and so are `steps`.
  Trainable(Checkpoint base, WritableAdapter adapter, TextSteps steps = {});

  /// The adapter that learns, and its base; null if the model's own parameters learn.
  const LoadedAdapter* adapter() const { return adapter_.get(); }
  const Checkpoint* base() const { return adapter_ != nullptr ? &base_ : nullptr; }
  /// What the segments of passes name.
  AppliedAdapters adapters() const { return applied_; }
  /// The first block in which a parameter learns; absent: the embedding, or any, may learn.
  std::optional<SiteId> first_learning_block() const;

  /// The model sees every change of the parameters. No pass may run while they change.
  const Model& model() const { return *model_; }
  std::shared_ptr<const Model> shared_model() const { return model_; }
  /// What makes vectors of texts of the model's rows, in training as in `encode`.
  const TextSteps& steps() const { return steps_; }
  /// The parameters that learn, in the order of for_each_param, then those of the steps.
  std::span<const TrainParam> params() const { return params_; }
  /// Vectors that no gradient changes (is_constant), in float32 and memory of their own. Empty for an adapter.
  std::span<const TrainParam> buffers() const { return buffers_; }
  DType dtype() const { return dtype_; }
  /// All values of the parameters, and all weights of dtype(), at their places (kParamAlignment). Empty for an adapter.
  std::span<float> values() const { return values_; }
  std::span<std::byte> weights() const { return weights_; }
  /// Rounds masters into weights: of parameter number `i`, or all. Call it after changing values. Does nothing for f32.
  void round_weights(std::size_t i, ThreadPool& pool, const Kernels& k) const;
  void round_weights(ThreadPool& pool, const Kernels& k) const;

 private:
  Trainable(const ModelConfig& config, DType dtype, const std::shared_ptr<const Model>& base, const IsTrainable& learns,
            TextSteps steps);

  DType dtype_;
  std::vector<TrainParam> params_, buffers_;
  std::span<float> values_;  // of the memory of model_
  std::span<std::byte> weights_;
  std::shared_ptr<const Model> model_;  // owns the memory
  Checkpoint base_{};
  std::shared_ptr<const LoadedAdapter> adapter_;
  std::vector<AppliedAdapter> applied_;
  TextSteps steps_{};
};

/// Receives the number of parameters that have their values: 0 first, then 1, …
using Filled = std::function<void(const Trainable& trainable, std::size_t n)>;

/// Random parameters: the same elements as `init` writes for that seed.
Trainable draw_trainable(const ModelConfig& config, DType dtype, const InitOptions& options, std::uint64_t seed,
                         ThreadPool& pool, const Kernels& k, const Filled& filled = {});
/// The parameters of a loaded model, and of steps: copies of those that learn; the others are shared with it. Throws
/// Unsupported if a parameter that learns is quantized, and names the first.
Trainable copy_trainable(const std::shared_ptr<const Model>& model, DType dtype, ThreadPool& pool, const Kernels& k,
                         const IsTrainable& learns = {}, const TextSteps& steps = {});

/// Parameters for `config`: copies of those that `model` has, by their names and shapes; the others, those of a new
/// head, are drawn as `options` says. `source` returns the name of the parameter of `model` to copy. Throws as
/// copy_trainable().
Trainable extend_trainable(const Model& model, const ModelConfig& config, DType dtype, const InitOptions& options,
                           const std::function<std::string(const std::string& name)>& source, std::uint64_t seed,
                           ThreadPool& pool, const Kernels& k);

/// The contents of a checkpoint in addition to the parameters.
struct ModelFiles {
  Family family;
  Json config;                  ///< config.json; empty if only an adapter is written.
  std::string tokenizer;        ///< A file, or a folder that has one; "": none.
  PeftOptions adapter{};        ///< If an adapter is written.
  std::string chat_template{};  ///< Replaces that of the tokenizer's files; "": none does.
  FolderFiles sentences{};      ///< Of sentence-transformers.
};

/// The values of a model's parameters, as write_hugging_face_tensors() takes them. Throws Unsupported for quantized
/// ones.
ParamValues values_of(const Model& model, const Hold& hold = {});
/// Copies the files of the tokenizer at `from` to `folder`; nothing if `from` is "". Throws as tokenizer_files() does.
void copy_tokenizer(const std::string& from, const std::string& folder);

/// Writes model.safetensors, config.json and the tokenizer's files into `folder`, which must exist; load_checkpoint
/// reads them. If an adapter learns, writes it alone, as peft's folders have it. All parameters are written as
/// trainable.dtype(). `files.chat_template` is written in both cases. Throws as FileWriter does, and Unsupported for
/// quantized parameters.
void save_model(const Trainable& trainable, const ModelFiles& files, const std::string& folder, ThreadPool& pool,
                const Hold& hold = {});

}  // namespace vitrine
