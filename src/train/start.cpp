#include "train/start.h"

#include <filesystem>

#include "base/error.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/load.h"

namespace vitrine {
namespace {

/// The start of a run that trains an adapter: a new one, that of lora.from, or, if it is not "", that of `checkpoint`.
Start start_adapter(const TrainConfig& c, const std::string& checkpoint, ThreadPool& pool) {
  Checkpoint base = load_checkpoint(c.model.checkpoint);
  const std::string config_path = c.model.checkpoint + "/config.json";
  const Json config = std::filesystem::exists(config_path) ? read_json_file(config_path) : Json::object();
  const std::string tokenizer = c.data.tokenizer.empty() ? base.tokenizer_path : c.data.tokenizer;
  const std::string& from = checkpoint.empty() ? c.lora->from : checkpoint;
  WritableAdapter adapter = from.empty() ? new_adapter(base, c.lora->adapter, c.train.seed, "lora.")
                                         : writable_copy(*load_adapter(from, base, pool));
  check_options(*adapter.adapter, base, c.lora->adapter, c.lora->given, "lora.");
  const PeftOptions options{adapter.adapter->rslora, c.lora->dropout, c.model.checkpoint};
  const Family& family = family_named(base.family);
  return {Trainable(std::move(base), std::move(adapter)), {family, config, tokenizer, options}};
}

/// The tokenizer of the model that the run began with, if there is one: the run deletes its own checkpoints, which have
/// copies of it.
std::string own_tokenizer(const TrainConfig& c, const std::string& checkpoint, const Checkpoint& loaded) {
  if (c.model.checkpoint.empty()) return "";
  const bool is_first = checkpoint == c.model.checkpoint;
  if (is_first || !std::filesystem::exists(c.model.checkpoint)) return loaded.tokenizer_path;
  return load_checkpoint(c.model.checkpoint).tokenizer_path;
}

}  // namespace

Start start_from(const TrainConfig& c, const std::string& checkpoint, ThreadPool& pool, const Kernels& k,
                 const Filled& filled) {
  if (c.lora) return start_adapter(c, checkpoint, pool);
  if (checkpoint.empty()) {
    return {draw_trainable(c.model.read(), c.train.dtype, c.model.init, c.train.seed, pool, k, filled),
            {family_of(c.model.config, c.model.where), c.model.config, c.data.tokenizer}};
  }
  const Checkpoint loaded = load_checkpoint(checkpoint);
  const std::string path = checkpoint + "/config.json";
  if (loaded.table == nullptr || !std::filesystem::exists(path)) {
    throw Unsupported(checkpoint, "expected a Hugging Face folder to train from, got a {}", loaded.description);
  }
  const Json config = read_json_file(path);
  const std::string tokenizer = c.data.tokenizer.empty() ? own_tokenizer(c, checkpoint, loaded) : c.data.tokenizer;
  return {copy_trainable(loaded.model, c.train.dtype, pool, k), {family_of(config, path), config, tokenizer}};
}

}  // namespace vitrine
