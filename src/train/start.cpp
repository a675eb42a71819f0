#include "train/start.h"

#include <filesystem>

#include "base/error.h"
#include "checkpoint/config_json.h"
#include "checkpoint/load.h"

namespace vitrine {

Start start_from(const TrainConfig& c, const std::string& checkpoint, ThreadPool& pool, const Kernels& k) {
  if (checkpoint.empty()) {
    return {draw_trainable(c.model.read(), c.train.dtype, c.model.init, c.train.seed, pool, k),
            {family_of(c.model.config, c.model.where), c.model.config, c.data.tokenizer}};
  }
  const Checkpoint loaded = load_checkpoint(checkpoint);
  const std::string path = checkpoint + "/config.json";
  if (loaded.table == nullptr || !std::filesystem::exists(path)) {
    throw Unsupported(checkpoint, "expected a Hugging Face folder to train from, got a {}", loaded.description);
  }
  const Json config = read_json_file(path);
  const std::string tokenizer = c.data.tokenizer.empty() ? loaded.tokenizer_path : c.data.tokenizer;
  return {copy_trainable(loaded.model, c.train.dtype, pool, k), {family_of(config, path), config, tokenizer}};
}

}  // namespace vitrine
