#include "inspect/objective.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "generate/sampler.h"

namespace vitrine {

double Objective::value(std::span<const float> logits) const {
  const auto of = [&](std::int32_t id) {
    return is_logprob ? logprob(logits, id) : static_cast<double>(logits[static_cast<std::size_t>(id)]);
  };
  return against ? of(token) - of(*against) : of(token);
}

namespace {

void check_kv_types(const Pass& pass) {
  if (pass.kv_types != KvTypes()) throw Unsupported("--kv", "gradients need f32 keys and values");
}

}  // namespace

void backward_from_logits(const Model& model, Pass& pass, const Tokens& tokens, std::span<const float> gradients) {
  check_kv_types(pass);
  Gradients of_no_params;
  Tape tape(of_no_params);
  const LossRequest loss{.targets = {}, .weights = {}, .logit_gradients = gradients};
  LossResult found;
  pass.training = {&tape, &loss, &found};
  pass.compute = Compute::f32;
  model.forward_backward(pass, tokens);
}

void backward_from_terms(const Model& model, Pass& pass, const Tokens& tokens, std::vector<LogitTerm> terms) {
  check_kv_types(pass);
  Gradients of_no_params;
  Tape tape(of_no_params);
  LossRequest loss;
  loss.logits = std::move(terms);
  LossResult found;
  pass.training = {&tape, &loss, &found};
  pass.compute = Compute::f32;
  model.forward_backward(pass, tokens);
}

void backward_from_objective(const Model& model, Pass& pass, const Tokens& tokens, const Objective& objective) {
  check_kv_types(pass);
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
  model.forward_backward(pass, tokens);
}

void backward_from_outputs(const Model& model, Pass& pass, const Tokens& tokens, std::span<const float> gradients,
                           Gradients& params) {
  check_kv_types(pass);
  Tape tape(params);
  LossRequest loss;
  loss.output_gradients = gradients;
  LossResult found;
  pass.training = {&tape, &loss, &found};
  pass.compute = Compute::f32;
  model.forward_backward(pass, tokens);
}

double backward_from_targets(const Model& model, Pass& pass, const Tokens& tokens, std::vector<std::int32_t> targets,
                             Gradients& params, std::optional<std::int32_t> next_sentence) {
  std::vector<float> weights;
  for (std::int32_t& target : targets) {
    weights.push_back(target == kNoLabel ? 0.0f : 1.0f);
    target = std::max(target, 0);
  }
  const double n = std::max(1.0, std::accumulate(weights.begin(), weights.end(), 0.0));
  const std::int32_t label = next_sentence.value_or(0);
  Tape tape(params);
  LossRequest loss{targets, weights, static_cast<float>(1 / n)};
  if (next_sentence) loss.next_sentence = {&label, 1};
  LossResult found;
  pass.training = {&tape, &loss, &found};
  pass.compute = Compute::f32;
  model.forward_backward(pass, tokens);
  return found.cross_entropy / n + found.next_sentence;
}

}  // namespace vitrine
