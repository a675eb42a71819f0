// The values and gradients of one training step, from which sections and the arithmetic of cells are made.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "example/example.h"

namespace vitrine {

/// A recorded value.
struct Seen {
  SiteId site;  ///< If it is a value or gradient at a site.
  Shape shape;
  std::vector<float> values;

  float operator[](std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }
  std::int64_t last_size() const { return shape[shape.rank() - 1]; }
};

using SeenByName = std::map<std::string, Seen>;

struct Facts {
  const ModelConfig* config = nullptr;
  std::vector<std::int32_t> ids, targets;
  std::vector<float> weights;                  ///< Of each row's loss.
  SeenByName values, gradients;                ///< At sites; the values include `softmax`.
  std::vector<std::string> forward, backward;  ///< Names of sites in the order of the forward and of the backward.
  SeenByName params, param_gradients, new_params;
  SeenByName input_side, head_side;  ///< The two parts of the gradient of a tied embedding.
  OptimizerConfig optimizer;
  double lr = 0;
  std::vector<std::string> frozen;
  Seen logits_after, softmax_after;
  double loss = 0, loss_after = 0;

  std::int64_t n_tokens() const { return static_cast<std::int64_t>(ids.size()); }
  const BlockConfig& block(int layer) const { return config->blocks[static_cast<std::size_t>(layer)]; }
};

/// Runs forward, backward, update and a second forward. Updates the model's parameters, after taking `differences`.
Facts take_step(const ExampleModel& model, const ExampleOptions& options,
                std::map<std::string, std::vector<Difference>>& differences);

}  // namespace vitrine
