#include "train/local_paths.h"

#include "hub/pull.h"

namespace vitrine {

void use_local_paths(TrainConfig& config, const HubAccess& access) {
  const auto replace = [&](std::string& path, HubWanted wanted) { path = local_path(path, wanted, access); };
  if (config.data.activations.empty()) replace(config.model.checkpoint, HubWanted::model);
  replace(config.data.tokenizer, HubWanted::tokenizer);
  replace(config.data.talk.chat_template, HubWanted::chat_template);
  if (config.lora) replace(config.lora->from, HubWanted::model);
}

}  // namespace vitrine
