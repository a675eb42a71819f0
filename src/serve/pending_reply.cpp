#include "serve/pending_reply.h"

namespace vitrine {

bool JobReply::take() {
  std::vector<SequenceStep> steps = job_->take();
  if (steps.empty()) return false;
  if (job_->streams()) {
    if (steps.size() > Job::kMaxSteps / 2) scheduler_->wake();  // sequences may be paused
    steps_ = std::move(steps);
    return true;
  }
  for (SequenceStep& step : steps) {
    if (step.error) std::rethrow_exception(step.error);
    results_[step.id] = std::move(*step.result);
    ++n_ended_;
  }
  return true;
}

}  // namespace vitrine
