// Names of models on a hub in a training config.
#pragma once

#include "hub/access.h"
#include "train/train_config.h"

namespace vitrine {

/// Fetches the model, the adapter, the tokenizer and the chat template that a config names with hf:, and replaces each
/// name by the path of its files, which has the commit. Throws as pull().
void use_local_paths(TrainConfig& config, const HubAccess& access);

}  // namespace vitrine
