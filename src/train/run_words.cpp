#include "train/run_words.h"

#include <fmt/format.h>

#include "base/error.h"

namespace vitrine {
namespace {

std::string text_of(const Json& words, const std::string& key) {
  const auto it = words.find(key);
  return it == words.end() ? "nothing" : it->dump();
}

}  // namespace

RunWords words_of(const TrainConfig& c, const SplitCorpus& corpus) {
  const StepOptions& t = c.train;
  const OptimizerConfig& o = c.optimizer;
  const ScheduleConfig& s = c.schedule;
  RunWords words;
  words.fixed = {{"batch", t.batch},
                 {"micro_batches", t.micro_batches},
                 {"seq_len", t.seq_len},
                 {"seed", t.seed},
                 {"dtype", std::string(name_of(t.dtype))},
                 {"mask_documents", c.data.mask_documents},
                 {"optimizer", o.kind == OptimizerConfig::Kind::adamw ? "adamw" : "sgd"},
                 {"training_tokens", corpus.training().train_tokens()},
                 {"tokenizer_fingerprint", fmt::format("{:016x}", corpus.shards().info().fingerprint)}};
  words.free = {{"steps", t.steps},
                {"dropout", t.dropout},
                {"label_smoothing", t.label_smoothing},
                {"z_loss", t.z_loss},
                {"balance_loss", t.balance_loss},
                {"balance", t.balance == StepOptions::Balance::sequence ? "sequence" : "hugging_face"},
                {"router_z_loss", t.router_z_loss},
                {"beta1", o.beta1},
                {"beta2", o.beta2},
                {"eps", o.eps},
                {"weight_decay", o.weight_decay},
                {"momentum", o.momentum},
                {"max_norm", o.max_norm ? Json(*o.max_norm) : Json()},
                {"schedule", static_cast<int>(s.kind)},
                {"lr", s.peak},
                {"warmup", s.warmup},
                {"decay_steps", s.decay_steps},
                {"end_fraction", s.end_fraction},
                {"writes", c.log.writes}};
  return words;
}

void check_words(const RunWords& before, const RunWords& now, const std::string& folder,
                 const std::function<void(const std::string&)>& tell) {
  for (const auto& [key, value] : now.fixed.items()) {
    const std::string was = text_of(before.fixed, key), is = value.dump();
    if (was == is) continue;
    throw BadInput(folder, "{} was {} when the run started and is now {}: the run cannot be resumed", key, was, is);
  }
  for (const auto& [key, value] : now.free.items()) {
    const std::string was = text_of(before.free, key), is = value.dump();
    if (was == is) continue;
    tell(fmt::format("{} changes from {} to {}: the bits will not be those of a run that was never stopped", key, was,
                     is));
  }
}

}  // namespace vitrine
