// A Jacobian lens: the mean over lists of ids of the Jacobians of each (inspect/stream_jacobian.h). Step n adds those
// of lists n · batch to (n + 1) · batch − 1 of the file.
#pragma once

#include "generate/context.h"
#include "tensor/zero_memory.h"
#include "train/lens/id_lists.h"
#include "train/step_run.h"

namespace vitrine {

class JacobianLearner final : public StepLearner {
 public:
  /// Lists without a position that counts are left out. Throws BadInput if none is left, Unsupported as
  /// check_jacobian(). Borrows `config` and what `context` does.
  JacobianLearner(const TrainConfig& config, const GenerateContext& context, IdLists lists);

  std::int64_t n_steps() const override;
  std::vector<std::string> plan() const override;
  /// The loss is the change of the mean: ‖new − old‖ / ‖new‖ over all layers.
  Step step(std::int64_t number) override;
  std::vector<OptimizerArray> arrays() override;
  RunWords words() const override;
  Json more() override { return Json::object({{"lists", n_lists_}}); }
  void set_more(const Json& more) override { n_lists_ = more.at("lists").get<std::int64_t>(); }
  void write(const std::string& folder) override;

 private:
  double add_to_sums(std::int64_t n_lists);

  const TrainConfig& c_;
  GenerateContext context_;
  IdLists lists_;
  std::int64_t n_left_out_ = 0;
  Shape shape_;                         // of a Jacobian
  ZeroMemory memory_;                   // of the sums, then of those of a step
  std::vector<Tensor> sums_, of_step_;  // by layer
  std::int64_t n_lists_ = 0;            // in the sums
};

}  // namespace vitrine
