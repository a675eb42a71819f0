// Passes over several sequences, for callers that differentiate, and the parameters as they use them.
#include "checkpoint/param_rows.h"
#include "inspect/objective.h"
#include "model/norms.h"
#include "ops/op_kind.h"
#include "vitrine/opened_model.h"
#include "vitrine/site_watcher.h"

namespace vitrine {
namespace {

/// The watch of a batch. The caller's function turns the gradient of a value after the watch into that before it.
class BatchWatcher : public SiteWatcher {
 public:
  BatchWatcher(const BatchOptions& options, const SiteLayers& layers)
      : SiteWatcher(options.watch, layers),
        on_gradient_(options.on_gradient),
        // An empty glob selects nothing.
        gradient_sites_(options.gradient_sites.empty() ? std::vector<std::string>{""} : options.gradient_sites,
                        layers) {}

  bool joins_segments() const override { return true; }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override {
    if (!SiteWatcher::wants(id)) return value;
    if (!wants_gradient(id)) return SiteWatcher::visit(pass, id, value);
    const Tensor result = replaced(pass, id, value);
    if (result.data == value.data || !pass.is_taped() || !pass.training.tape->knows(value)) return result;
    pass.record(OpKind::write, {value}, result, [&pass, value, result] {
      const Tensor dvalue = pass.grad(value), dresult = pass.grad(result);
      pass.kernels.add(dvalue.data, dresult.data, value.count(), dvalue.data);
    });
    return result;
  }
  bool wants(const SiteId& id) const override { return SiteWatcher::wants(id) || wants_gradient(id); }
  /// A pass without logits ends there.
  std::optional<SiteId> last_wanted() const override { return is_watching() ? sites().last() : SiteId{}; }
  bool wants_gradient(const SiteId& id) const override { return on_gradient_ && gradient_sites_.contains(id); }
  void visit_gradient(Pass&, const SiteId& id, const Tensor& gradient) override {
    on_gradient_(name_of(id), gradient.values(), gradient.shape.sizes());
  }

 private:
  SiteFunction on_gradient_;
  SiteSelection gradient_sites_;
};

std::vector<Segment> segments_of(std::int64_t n_sequences, std::int64_t length) {
  std::vector<Segment> segments;
  for (std::int64_t i = 0; i < n_sequences; ++i) segments.push_back({i * length, length, 0, nullptr});
  return segments;
}

/// Begins the pass at a later layer, if the caller asks for it.
void set_start(Pass& pass, const ModelConfig& config, const BatchOptions& options, std::int64_t n_rows) {
  if (!options.start) return;
  const auto n_layers = static_cast<std::int64_t>(config.n_layers());
  if (*options.start < 0 || *options.start > n_layers) {
    throw BadInput("start", "expected a layer from 0 to {}, got {}", n_layers, *options.start);
  }
  const std::int64_t width = config.width_before(static_cast<std::size_t>(*options.start));
  if (static_cast<std::int64_t>(options.stream.size()) != n_rows * width) {
    throw BadInput("start", "expected a stream of {} × {} elements, got {}", n_rows, width, options.stream.size());
  }
  const Tensor stream = pass.tensor({n_rows, width});
  pass.copy(options.stream.data(), stream.count(), stream.data);
  pass.start = {static_cast<int>(*options.start), stream};
  if (options.on_stream_gradient) {
    pass.start->receive_gradient = [&options](const Tensor& gradient) {
      options.on_stream_gradient(gradient.values());
    };
  }
}

}  // namespace

void LanguageModel::run(std::span<const std::int32_t> ids, std::int64_t n_sequences, const BatchOptions& options,
                        std::stop_token cancel) const {
  const State& s = *state_;
  const Model& model = *s.checkpoint.model;
  const auto n_rows = static_cast<std::int64_t>(ids.size());
  if (n_sequences < 1 || n_rows == 0 || n_rows % n_sequences != 0) {
    throw BadInput("ids", "expected {} sequences of the same length, got {} ids", n_sequences, n_rows);
  }
  s.expect_no_encoder("run");
  BatchWatcher watcher(options, s.layers());
  const Call call(s, std::move(cancel), &watcher);
  const GenerateContext& context = call.context();
  context.check_ids(ids);
  Arena arena;
  Pass pass = context.make_pass(arena, segments_of(n_sequences, n_rows / n_sequences));
  pass.compute = Compute::f32;
  set_start(pass, model.config(), options, n_rows);
  if (!options.logit_gradients.empty()) {
    context.set_modifiers(pass);
    backward_from_logits(model, pass, ids, options.logit_gradients);
  } else {
    pass.logits = {LogitRequest::Rows::range, 0, n_rows, {}};
    pass.logits.into = memory_of_logits(options.logits, n_rows, model.config().vocab_size);
    context.forward(pass, ids);
  }
  if (watcher.is_watching()) watcher.check_all_met();
}

NamedValue LanguageModel::parameter(const std::string& name) const {
  const Checkpoint& checkpoint = state_->checkpoint;
  const ModelConfig& config = checkpoint.model->config();
  const ModelParams& params = checkpoint.model->params();
  const NormsByName norms = norms_of(config);
  NamedValue found;
  const auto read = [&](const Param& param, const Shape& shape, float factor, float offset) {
    const std::int64_t rows = shape.rank() == 1 ? 1 : shape[0], n = shape.count() / rows;
    found = {
        name, {shape.sizes().begin(), shape.sizes().end()}, std::vector<float>(static_cast<std::size_t>(rows * n))};
    for (std::int64_t row = 0; row < rows; ++row) {
      read_row(param.view, row,
               std::span(found.values).subspan(static_cast<std::size_t>(row * n)).first(static_cast<std::size_t>(n)));
    }
    for (float& value : found.values) value = factor * value + offset;
  };
  for_each_param(config, params, [&](const Param& param, const std::string& own, const Shape& shape) {
    if (own == name) {
      const NormConfig* const norm = norm_of_weight(norms, own);
      const float scale = &param == &params.embed           ? config.embedding.scale
                          : &param == &params.encoder.embed ? config.encoder->embedding.scale
                                                            : 1.0f;
      read(param, shape, scale, norm != nullptr ? norm->weight_offset : 0.0f);
    }
    if (&param == &params.embed && config.head.tied && name == "unembed.weight") read(param, shape, 1.0f, 0.0f);
  });
  if (found.name.empty()) throw BadInput("parameter", "the model has no parameter {}", name);
  return found;
}

}  // namespace vitrine
