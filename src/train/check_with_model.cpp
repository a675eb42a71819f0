#include "base/error.h"
#include "model/count.h"
#include "train/train_config.h"

namespace vitrine {

void check_with_model(const TrainConfig& config, const ModelConfig& model) {
  if (config.train.seq_len > model.max_seq_len) {
    throw BadInput("train.seq_len", "expected at most {} tokens (the model's context), got {}", model.max_seq_len,
                   config.train.seq_len);
  }
  if (model.encoder && config.train.seq_len > model.encoder->max_seq_len) {
    throw BadInput("train.seq_len", "expected at most {} tokens (the encoder's context), got {}",
                   model.encoder->max_seq_len, config.train.seq_len);
  }
  if (config.text) return;
  const bool masks = config.train.objective == StepOptions::Objective::masked;
  if (masks && !is_bidirectional(model)) {
    throw BadInput("train.objective", "the model sees no later tokens, so it cannot fill in masks");
  }
  if (!masks && is_bidirectional(model)) {
    throw BadInput("train.objective", "the model attends to later tokens: it learns with objective = \"masked\"");
  }
  if (config.train.router_bias_rate > 0 && count_corrections(model) == 0) {
    throw BadInput("train.router_bias_rate", "it moves the corrections of routers, and this model has none");
  }
  if (max_experts(model) == 0 && (config.train.balance_loss > 0 || config.train.router_z_loss > 0)) {
    throw BadInput("train", "balance_loss and router_z_loss are for models with experts; this one has none");
  }
}

}  // namespace vitrine
