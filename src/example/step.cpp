#include <algorithm>

#include "base/error.h"
#include "example/facts.h"
#include "inspect/recorder.h"
#include "ops/route.h"
#include "spell/op_log.h"

namespace vitrine {
namespace {

SeenByName params_of(std::span<const TrainParam> params) {
  SeenByName result;
  for (const TrainParam& p : params) result[p.name] = {{}, p.shape, {p.value, p.value + p.count()}};
  return result;
}

void check(const ModelConfig& config, const ExampleOptions& o) {
  const auto is_id = [&](std::int32_t id) { return id >= 0 && id < config.vocab_size; };
  if (o.ids.empty()) throw BadInput("--ids", "expected at least 1 id, got none");
  for (const std::int32_t id : o.ids) {
    if (!is_id(id)) throw BadInput("--ids", "expected ids from 0 to {}, got {}", config.vocab_size - 1, id);
  }
  if (static_cast<std::int64_t>(o.ids.size()) > config.max_seq_len) {
    throw BadInput("--ids", "expected at most {} ids (the model's context), got {}", config.max_seq_len, o.ids.size());
  }
  if (!is_id(o.target))
    throw BadInput("--target", "expected an id from 0 to {}, got {}", config.vocab_size - 1, o.target);
}

/// The gradients of all parameters that are updated, and the update.
class Step {
 public:
  Step(const ExampleModel& model, Facts& facts) : model_(model), facts_(facts), pool_(1) {
    for (const TrainParam& p : model.trainable.params()) {
      if (std::count(model.frozen.begin(), model.frozen.end(), p.name) > 0) continue;
      gradients_.add(*p.param);
      learning_.push_back(p);
    }
    for (const TrainParam& p : learning_) places_.push_back(gradients_.of(*p.param).data);
  }

  /// Runs forward and backward and records all sites and ops.
  void forward_backward() {
    Tape tape(gradients_);
    Ledger ledger;
    OpLog log(ledger, facts_);
    LossRequest loss{facts_.targets, facts_.weights};
    LossResult found;
    const auto see = [&](const SiteId& id, const Tensor& value) {
      facts_.forward.push_back(name_of(id));
      facts_.values[facts_.forward.back()] = seen(id, value);
      log.see(id, value);
    };
    const ModelConfig& config = model_.trainable.model().config();
    Recorder recorder({}, {}, site_layers(config), see);
    recorder.receive_gradients([&](const SiteId& id, const Tensor& gradient) {
      facts_.backward.push_back(name_of(id));
      facts_.gradients[facts_.backward.back()] = seen(id, gradient);
      log.see_gradient(id, gradient);
    });
    Pass pass{{.pool = pool_, .kernels = default_kernels(), .arena = arena_, .compute = Compute::f32},
              {{0, facts_.n_tokens(), 0, nullptr}},
              {},
              &recorder};
    pass.training = {&tape, &loss, &found};
    pass.ledger = &ledger;
    model_.trainable.model().forward_backward(pass, facts_.ids);
    facts_.loss = found.cross_entropy;
    facts_.values["softmax"] = softmax(facts_.values.at("hook_logits"));
    for (std::size_t i = 0; i < learning_.size(); ++i) {
      const TrainParam& p = learning_[i];
      facts_.param_gradients[p.name] = {{}, p.shape, {places_[i], places_[i] + p.count()}};
    }
  }

  void update() {
    Optimizer optimizer(facts_.optimizer, learning_);
    const StepReport report = optimizer.step(pool_, default_kernels(), learning_, places_, facts_.lr);
    if (report.skipped) throw NotFinite("example", "{}", report.why_skipped());
    facts_.new_params = params_of(learning_);
  }

  /// Runs a forward with the updated parameters.
  void predict_again() {
    LossRequest loss{facts_.targets, facts_.weights};
    LossResult found;
    Pass pass{{.pool = pool_, .kernels = default_kernels(), .arena = arena_, .compute = Compute::f32},
              {{0, facts_.n_tokens(), 0, nullptr}},
              {}};
    pass.training = {nullptr, &loss, &found};
    pass.logits.receive = [&](std::int64_t, const Tensor& logits) { facts_.logits_after = seen({}, logits); };
    model_.trainable.model().forward(pass, facts_.ids);
    facts_.loss_after = found.cross_entropy;
    facts_.softmax_after = softmax(facts_.logits_after);
  }

  std::span<const TrainParam> learning() const { return learning_; }

 private:
  Seen softmax(const Seen& logits) {
    const ArenaScope scope(arena_);
    Pass pass{{.pool = pool_, .kernels = default_kernels(), .arena = arena_, .compute = Compute::f32}, {}, {}};
    const Tensor x = arena_.tensor(logits.shape);
    std::copy(logits.values.begin(), logits.values.end(), x.data);
    return seen({}, softmax_rows(pass, x));
  }

  const ExampleModel& model_;
  Facts& facts_;
  ThreadPool pool_;
  Arena arena_;
  Gradients gradients_;
  std::vector<TrainParam> learning_;
  std::vector<const float*> places_;
};

/// Separates the gradient of a tied embedding into the part of the rows that were read and the part of the head.
void take_ends_apart(Facts& f) {
  const Shape& shape = f.params.at("embed.weight").shape;
  const std::int64_t d = shape[1];
  const Seen& dx = f.gradients.at("hook_embed");
  Seen input{{}, shape, std::vector<float>(static_cast<std::size_t>(shape.count()))};
  for (std::int64_t t = 0; t < f.n_tokens(); ++t) {
    float* const row = input.values.data() + f.ids[static_cast<std::size_t>(t)] * d;
    for (std::int64_t i = 0; i < d; ++i) row[i] += f.config->embedding.scale * dx[t * d + i];
  }
  f.input_side = std::move(input);
  const Seen &dz = f.gradients.at("unembed.hook_out"), &h = f.values.at("unembed.hook_in");
  Seen head{{}, shape, {}};
  for (std::int64_t v = 0; v < shape[0]; ++v) {
    for (std::int64_t i = 0; i < d; ++i) {
      float sum = 0;
      for (std::int64_t t = 0; t < f.n_tokens(); ++t) sum += dz[t * shape[0] + v] * h[t * d + i];
      head.values.push_back(sum);
    }
  }
  f.head_side = std::move(head);
}

/// A slope for each element of every parameter that is updated; in large models, only for evenly spaced elements.
std::map<std::string, std::vector<Difference>> take_differences(const ExampleModel& model, const ExampleOptions& o,
                                                                std::span<const TrainParam> learning) {
  std::int64_t total = 0;
  for (const TrainParam& p : learning) total += p.count();
  const auto share = std::max<std::int64_t>(1, o.max_differences / static_cast<std::int64_t>(learning.size()));
  const TrainParam& embedding = model.trainable.params().front();
  Differences differences(model.trainable.model(), o.ids, o.target,
                          embedding.value + o.ids.back() * embedding.shape[1]);
  std::map<std::string, std::vector<Difference>> result;
  for (const TrainParam& p : learning) {
    std::vector<Difference>& slopes = result[p.name];
    slopes.resize(static_cast<std::size_t>(p.count()));
    const std::int64_t n = total <= o.max_differences ? p.count() : std::min(share, p.count());
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = n == p.count() ? i : (2 * i + 1) * p.count() / (2 * n);
      slopes[static_cast<std::size_t>(at)] = differences.by(p.value + at);
    }
  }
  return result;
}

}  // namespace

Facts take_step(const ExampleModel& model, const ExampleOptions& o,
                std::map<std::string, std::vector<Difference>>& differences) {
  const ModelConfig& config = model.trainable.model().config();
  check(config, o);
  Facts facts;
  facts.config = &config;
  facts.ids = o.ids;
  facts.targets.assign(o.ids.begin() + 1, o.ids.end());
  facts.targets.push_back(o.target);
  facts.weights.assign(o.ids.size(), 0.0f);
  facts.weights.back() = 1.0f;
  facts.optimizer = o.optimizer;
  facts.lr = o.lr;
  facts.frozen = model.frozen;
  facts.params = params_of(model.trainable.params());
  Step step(model, facts);
  step.forward_backward();
  if (config.head.tied) take_ends_apart(facts);
  differences = take_differences(model, o, step.learning());
  step.update();
  step.predict_again();
  return facts;
}

}  // namespace vitrine
