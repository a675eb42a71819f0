// A tuned lens that learns: for each layer l, an affine map of the stream h_l before the layer.
//
//   L = Σ_l mean_t KL(p[t] ‖ q_l[t])      p the model's distribution, q_l that of its last step on h_l + W_l h_l + b_l
//
// Maps begin at 0, with which the lens is the logit lens. Source: Belrose et al. 2023; AlignmentResearch/tuned-lens.
#pragma once

#include <optional>

#include "autograd/tape.h"
#include "generate/context.h"
#include "inspect/final_rows.h"
#include "tensor/arena.h"
#include "tensor/zero_memory.h"
#include "train/lens/id_lists.h"
#include "train/optimizer.h"
#include "train/step_run.h"

namespace vitrine {

class TunedLearner final : public StepLearner {
 public:
  /// Throws as read_trained_lens() for lens.start, and Unsupported for a model without a head or a stream. Borrows
  /// `config` and what `context` does.
  TunedLearner(const TrainConfig& config, const GenerateContext& context, IdLists lists);

  std::int64_t n_steps() const override { return c_.train.steps; }
  std::vector<std::string> plan() const override;
  /// On `train.batch` lists. The metrics are the loss, the rate, the norm of the gradient, and the KL of each layer,
  /// `layers.N`.
  Step step(std::int64_t number) override;
  std::vector<OptimizerArray> arrays() override;
  RunWords words() const override;
  Json more() override { return Json::object({{"optimizer_steps", optimizer_->steps()}}); }
  void set_more(const Json& more) override { optimizer_->set_steps(more.at("optimizer_steps").get<std::int64_t>()); }
  void write(const std::string& folder) override { write_trained_lens(folder, LensKind::tuned, layers_); }

 private:
  struct Rows;

  void add_layers();
  void copy(const TrainedLens& from);
  std::span<const std::int32_t> list(std::int64_t place) const;
  void add_list(std::span<const std::int32_t> ids, double factor, std::vector<double>& losses);
  void add_layer(Pass& p, std::size_t layer, const Rows& rows, const FinalRows& final, double factor, double& loss);

  const TrainConfig& c_;
  GenerateContext context_;
  IdLists lists_;
  ZeroMemory memory_;
  std::vector<LinearParams> layers_;
  std::vector<TrainParam> params_;
  std::optional<Optimizer> optimizer_;
  Gradients gradients_;
  Tape tape_{gradients_};
  Arena arena_;
};

}  // namespace vitrine
