#include "train/plan.h"

#include <fmt/format.h>

#include "model/count.h"
#include "train/memory.h"

namespace vitrine {

std::vector<std::string> plan_of(const TrainConfig& c, const Start& start, const TrainingData& data,
                                 const DataPlan& plan, const Ranks& ranks, Shard shard, ThreadPool& pool) {
  std::vector<std::string> lines;
  const auto tell = [&](std::string line) { lines.push_back(std::move(line)); };
  const StepOptions& t = c.train;
  const ModelConfig& config = start.trainable.model().config();
  const auto n_params = static_cast<double>(count_params(config));
  const auto corpus = static_cast<double>(data.training_tokens());
  const double epochs = static_cast<double>(t.steps * t.batch) / data.samples_per_epoch();
  const std::string model_text = fmt::format("{:.2f} M parameters ({}); {} steps of {}", n_params / 1e6,
                                             start.files.family.model_type, t.steps, t.batch);
  if (plan.talk || plan.texts) {
    tell(fmt::format("{} {}", model_text, plan.talk ? plan.talk->plan(epochs) : plan.texts->plan(epochs)));
  } else {
    tell(fmt::format("{} x {} tokens: {:.2f} epochs of {} tokens; {:.3g} parameters per token of the corpus",
                     model_text, t.seq_len, epochs, data.training_tokens(), n_params / corpus));
  }
  if (start.trainable.adapter() != nullptr) {
    std::int64_t n = 0;
    for (const TrainParam& param : start.trainable.params()) n += param.count();
    tell(fmt::format("an adapter of {:.2f} M parameters learns", static_cast<double>(n) / 1e6));
  } else if (start.files.family.model_type == "vitrine") {
    tell("no published family has this config: only vitrine can read its checkpoints (model_type vitrine)");
  }
  std::int64_t sequences = t.batch / t.micro_batches * (plan.talk && plan.talk->is_pairs() ? 2 : 1);
  if (plan.texts) sequences *= plan.texts->most_pieces();
  const std::int64_t length = plan.texts ? plan.texts->longest() : t.seq_len;
  TrainWorkload workload{sequences, length, t.dtype, c.optimizer.kind, t.recompute, t.dropout > 0};
  workload.share = {ranks.rank(), ranks.size(), t.micro_batches, shard};
  if (start.trainable.adapter() != nullptr) workload.trainable = &start.trainable;
  workload.adapter_dropout = t.adapter_dropout > 0;
  const std::vector<MemoryPart> parts = training_memory(config, workload, pool);
  std::string list;
  for (const MemoryPart& part : parts) list += fmt::format(", {} {:.0f} MB", part.name, part.bytes / 1e6);
  if (!ranks.is_alone()) tell(fmt::format("{} ranks share {} micro-batches", ranks.size(), t.micro_batches));
  tell(fmt::format("memory: about {:.0f} MB{}", total_bytes(parts) / 1e6, list));
  return lines;
}

}  // namespace vitrine
