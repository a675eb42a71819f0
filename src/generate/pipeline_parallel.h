// Pipeline parallelism (--split layers): the blocks of a model on the ranks of a run, one stage for each rank.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "generate/distributed_model.h"

namespace vitrine {

/// Where the blocks of each of `n` parts begin, and the end: the largest part is as small as possible. `bytes`: the
/// weights of each block. No part is empty.
std::vector<int> divide_layers(std::span<const std::int64_t> bytes, int n);

class PipelineParallelModel : public DistributedModel {
 public:
  /// Throws BadInput if there are more ranks than blocks in a stack or the ranks have different models, Unsupported for
  /// a model with other layers than attention. Borrows the ranks.
  PipelineParallelModel(Ranks& ranks, const std::shared_ptr<const Model>& model);
  PipelineParallelModel(const PipelineParallelModel&) = delete;
  PipelineParallelModel& operator=(const PipelineParallelModel&) = delete;
  /// If an error leaves messages under way, gives up (Ranks::give_up).
  ~PipelineParallelModel() override;

  int first(Stack stack) const override { return bound_of(stack, ranks_.rank()); }
  int end(Stack stack) const override { return bound_of(stack, ranks_.rank() + 1); }
  void receive(const Tensor& stream) override;
  void send(Pass& p, const Tensor& stream) override;
  void share(const Tensor& rows) override;
  Tensor visit(Pass& p, const SiteId& id, const Tensor& value) override;
  void visit_step(Pass& p, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count) override;
  void visit_steps(Pass& p, const SiteId& id, const Tensor& value) override;

 private:
  int bound_of(Stack stack, int n) const {
    return (stack == Stack::encoder ? encoder_bounds_ : bounds_)[static_cast<std::size_t>(n)];
  }
  std::vector<int> divide(const Model& model, Stack stack) const;
  void show_values_of(int rank, Pass& p);
  void show_step_of(int rank, Pass& p, const SiteId& id, const Shape& shape, std::int64_t first, std::int64_t count);

  std::vector<int> bounds_, encoder_bounds_;                    // of the model's own stack, and of its encoder
  std::deque<std::pair<std::vector<float>, Tickets>> sending_;  // streams under way
  std::vector<float> stepped_;  // on rank 0: a value of another rank, up to the last step
};

}  // namespace vitrine
