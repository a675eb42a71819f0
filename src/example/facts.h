// The values and gradients of one training step, from which the sections and the arithmetic of their cells are built.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "example/example.h"
#include "spell/op_log.h"

namespace vitrine {

struct Facts : ForwardFacts {
  SeenByName gradients;               ///< At sites.
  std::vector<std::string> backward;  ///< Names of sites in the order of the backward.
  SeenByName param_gradients, new_params;
  Seen input_side, head_side;  ///< The two parts of the gradient of a tied embedding.
  OptimizerConfig optimizer;
  double lr = 0;
  std::vector<std::string> frozen;
  Seen logits_after, softmax_after;
  double loss = 0, loss_after = 0;
};

/// Runs forward, backward, update and a second forward. Updates the model's parameters, after taking `differences`.
Facts take_step(const ExampleModel& model, const ExampleOptions& options,
                std::map<std::string, std::vector<Difference>>& differences);

}  // namespace vitrine
