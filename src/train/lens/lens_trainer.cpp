#include "train/lens/lens_trainer.h"

#include "base/error.h"
#include "checkpoint/load.h"
#include "train/lens/jacobian_learner.h"
#include "train/lens/tuned_learner.h"

namespace vitrine {

TrainResult train_lens(const TrainConfig& config, const TrainRun& run) {
  if (run.ranks != nullptr && !run.ranks->is_alone()) throw Unsupported("train", "[lens] is trained by one rank");
  StepRun steps(config, run);
  ThreadPool pool(run.threads);
  const std::shared_ptr<const Model> model = load_checkpoint(config.model.checkpoint).model;
  if (model->config().encoder) throw Unsupported(config.model.checkpoint, "[lens] reads no encoder–decoder");
  GenerateContext context{.model = model.get(), .pool = &pool, .kernels = &default_kernels()};
  context.interrupt = run.interrupt;
  context.compute = Compute::f32;
  context.poll = run.poll;
  IdLists lists = IdLists::read(config.data.ids, *model, config.train.seq_len);
  if (config.lens->kind == LensKind::tuned) {
    TunedLearner learner(config, context, std::move(lists));
    return steps.run(learner);
  }
  JacobianLearner learner(config, context, std::move(lists));
  return steps.run(learner);
}

}  // namespace vitrine
