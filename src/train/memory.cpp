#include "train/memory.h"

#include "base/checked.h"
#include "inspect/account.h"
#include "model/count.h"

namespace vitrine {
namespace {

constexpr double kFloat = 4;
constexpr double kProgram = 16e6;  // code, tables, threads

}  // namespace

std::vector<MemoryPart> training_memory(const ModelConfig& config, const TrainWorkload& w, ThreadPool& pool) {
  LearningPass pass{w.batch, w.seq_len, {}, w.dtype, w.recompute, w.dropout};
  double n_params = as_double(count_params(config)), weights = n_params * as_double(size_of(w.dtype));
  if (w.trainable != nullptr) {
    pass.adapters = w.trainable->adapters();
    pass.adapter_dropout = w.adapter_dropout;
    pass.begin = w.trainable->first_learning_block();
    n_params = weights = 0;
    for (const TrainParam& param : w.trainable->params()) n_params += as_double(param.count());
    const Model& model = w.trainable->model();
    for_each_param(config, model.params(), [&](const Param& param, const std::string&, const Shape& shape) {
      weights += as_double(bytes_of(param.view.dtype, shape.count()));
    });
    weights += n_params * kFloat;
  }
  std::vector<MemoryPart> parts = {
      {"parameters", weights},
      {"masters", w.dtype == DType::f32 ? 0 : n_params * kFloat},
      {"gradients", n_params * kFloat * as_double(w.gradient_buffers)},
      {"moments", n_params * kFloat * n_moments(w.optimizer)},
      {"activations", as_double(learning_bytes(config, pass, pool))},
      {"program", kProgram},
  };
  std::erase_if(parts, [](const MemoryPart& part) { return part.bytes == 0; });
  return parts;
}

double training_flops_per_token(const ModelConfig& config) {
  double weights = config.head.tied ? as_double(config.vocab_size * config.d_model) : 0;
  for_each_shape(config, [&](const std::string& name, const Shape& shape) {
    const bool is_looked_up = name == "embed.weight" || name == "pos_embed.weight";
    if (shape.rank() < 2 || is_looked_up) return;
    double part = 1;
    if (name.find(".experts.") != std::string::npos) {
      for (const BlockConfig& block : config.blocks) {
        if (const auto* moe = std::get_if<MoeConfig>(&block.ffn))
          part = as_double(moe->top_k) / as_double(moe->n_experts);
      }
    }
    weights += part * as_double(shape.count());
  });
  return 6 * weights;
}

double total_bytes(const std::vector<MemoryPart>& parts) {
  double sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

}  // namespace vitrine
