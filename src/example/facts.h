// Everything that one step of learning showed: what sections are made of, and what cells are spelled out from.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "example/example.h"

namespace vitrine {

/// A value that was seen.
struct Seen {
  SiteId site;  ///< Of values and gradients at sites.
  Shape shape;
  std::vector<float> values;

  float operator[](std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }
  std::int64_t last_size() const { return shape[shape.rank() - 1]; }
};

using SeenByName = std::map<std::string, Seen>;

struct Facts {
  const ModelConfig* config = nullptr;
  std::vector<std::int32_t> ids, targets;
  std::vector<float> weights;                ///< Of each row's loss.
  SeenByName values, gradients;              ///< At sites. `softmax` is among the values.
  std::vector<std::string> order, way_back;  ///< Names of sites as the forward and the backward came to them.
  SeenByName params, param_gradients, new_params;
  SeenByName input_side, head_side;  ///< The two ends of the embedding's gradient.
  OptimizerConfig optimizer;
  double lr = 0;
  std::vector<std::string> frozen;
  Seen logits_after, softmax_after;
  double loss = 0, loss_after = 0;

  std::int64_t n_tokens() const { return static_cast<std::int64_t>(ids.size()); }
  const BlockConfig& block(int layer) const { return config->blocks[static_cast<std::size_t>(layer)]; }
};

/// One step: forward, backward, update, forward. Moves the model's parameters. `differences` and what they say of are
/// filled before that.
Facts take_step(const ExampleModel& model, const ExampleOptions& options,
                std::map<std::string, std::vector<Difference>>& differences);

}  // namespace vitrine
