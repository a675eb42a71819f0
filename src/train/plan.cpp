#include "train/plan.h"

#include <fmt/format.h>

#include "model/count.h"
#include "train/gradient_sum.h"
#include "train/memory.h"

namespace vitrine {

void tell_plan(const TrainConfig& c, const Start& start, const TrainingData& corpus, const ConversationData* talk,
               ThreadPool& pool, const std::function<void(const std::string&)>& tell) {
  const StepOptions& t = c.train;
  const ModelConfig& config = start.trainable.model().config();
  const auto n_params = static_cast<double>(count_params(config));
  const auto tokens = static_cast<double>(corpus.training_tokens());
  const double epochs = static_cast<double>(t.steps * t.batch) / corpus.samples_per_epoch();
  const std::string model_text = fmt::format("{:.2f} M parameters ({}); {} steps of {}", n_params / 1e6,
                                             start.files.family.model_type, t.steps, t.batch);
  if (talk) {
    tell(fmt::format("{} {}", model_text, talk->plan(epochs)));
  } else {
    tell(fmt::format("{} x {} tokens: {:.2f} epochs of {} tokens; {:.3g} parameters per token of the corpus",
                     model_text, t.seq_len, epochs, corpus.training_tokens(), n_params / tokens));
  }
  if (start.trainable.adapter() != nullptr) {
    std::int64_t n = 0;
    for (const TrainParam& param : start.trainable.params()) n += param.count();
    tell(fmt::format("an adapter of {:.2f} M parameters learns", static_cast<double>(n) / 1e6));
  } else if (start.files.family.model_type == "vitrine") {
    tell("no published family has this config: only vitrine can read its checkpoints (model_type vitrine)");
  }
  const std::int64_t sequences = t.batch / t.micro_batches * (talk && talk->is_pairs() ? 2 : 1);
  TrainWorkload workload{sequences, t.seq_len, t.dtype, c.optimizer.kind, t.recompute, t.dropout > 0};
  workload.gradient_buffers = GradientSum::buffers(t.micro_batches);
  if (start.trainable.adapter() != nullptr) workload.trainable = &start.trainable;
  workload.adapter_dropout = t.adapter_dropout > 0;
  const auto parts = training_memory(config, workload, pool);
  std::string list;
  for (const MemoryPart& part : parts) list += fmt::format(", {} {:.0f} MB", part.name, part.bytes / 1e6);
  tell(fmt::format("memory: about {:.0f} MB{}", total_bytes(parts) / 1e6, list));
}

}  // namespace vitrine
