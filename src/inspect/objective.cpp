#include "inspect/objective.h"

#include "base/error.h"
#include "generate/sampler.h"

namespace vitrine {

double Objective::value(std::span<const float> logits) const {
  const auto of = [&](std::int32_t id) {
    return is_logprob ? logprob(logits, id) : static_cast<double>(logits[static_cast<std::size_t>(id)]);
  };
  return against ? of(token) - of(*against) : of(token);
}

void learn_objective(const Model& model, Pass& pass, const Tokens& tokens, const Objective& objective) {
  if (pass.kv_types != KvTypes()) throw Unsupported("--kv", "gradients need f32 keys and values");
  Gradients of_no_params;
  Tape tape(of_no_params);
  LossRequest loss;
  LossResult found;
  std::vector<std::int32_t> targets;
  std::vector<float> weights;
  const auto row = static_cast<std::size_t>(objective.position);
  if (objective.is_logprob && !objective.against) {  // the negative of a cross-entropy
    targets.resize(tokens.ids.size());
    weights.resize(tokens.ids.size());
    targets[row] = objective.token;
    weights[row] = 1.0f;
    loss.targets = targets;
    loss.weights = weights;
    loss.scale = -1.0f;
  } else {  // a difference of log-probabilities is one of logits
    loss.logits.push_back({objective.position, objective.token, 1.0f});
    if (objective.against) loss.logits.push_back({objective.position, *objective.against, -1.0f});
  }
  pass.training = {&tape, &loss, &found};
  pass.compute = Compute::f32;
  model.learn(pass, tokens);
}

}  // namespace vitrine
