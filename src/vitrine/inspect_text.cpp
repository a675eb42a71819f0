// Runs of a prompt that show values and gradients.
#include <algorithm>

#include "autograd/gradients.h"
#include "checkpoint/gradients_file.h"
#include "inspect/objective.h"
#include "inspect/recorder.h"
#include "vitrine/opened_model.h"
#include "vitrine/site_watcher.h"
#include "vitrine/tap_chain.h"

namespace vitrine {
namespace {

/// What each row predicts, for the mean next-token loss. `where` names the caller.
std::vector<std::int32_t> next_tokens(const ModelConfig& config, const KvTypes& kv_types,
                                      const std::vector<std::int32_t>& ids, const char* where) {
  if (kv_types != KvTypes()) throw Unsupported(where, "gradients need f32 keys and values");
  if (is_bidirectional(config)) {
    throw Unsupported(where, "the model attends to later tokens, so it has no next-token loss");
  }
  if (ids.size() < 2) {
    throw BadInput(where, "expected at least 2 tokens (the first predicts the second), got {}", ids.size());
  }
  return {ids.begin() + 1, ids.end()};
}

/// Collects tensors as float32 values.
class ValueSink : public TensorSink {
 public:
  explicit ValueSink(const std::function<void(NamedValue)>& receive) : receive_(receive) {}
  void begin(const std::string& name, DType, const std::vector<std::int64_t>& shape) override {
    std::int64_t n = 1;
    for (const std::int64_t size : shape) n *= size;
    value_ = {name, shape, {}};
    value_.values.reserve(static_cast<std::size_t>(n));
    left_ = static_cast<std::size_t>(n);
    if (n == 0) receive_(std::move(value_));
  }
  void append(std::span<const std::byte> bytes) override {
    const auto* const floats = reinterpret_cast<const float*>(bytes.data());
    const std::size_t n = bytes.size() / sizeof(float);
    value_.values.insert(value_.values.end(), floats, floats + n);
    left_ -= n;
    if (left_ == 0) receive_(std::move(value_));
  }

 private:
  const std::function<void(NamedValue)>& receive_;
  NamedValue value_;
  std::size_t left_ = 0;
};

}  // namespace

std::vector<SiteValue> LanguageModel::trace(const Prompt& prompt, const TraceOptions& options,
                                            std::stop_token cancel) const {
  const State& s = *state_;
  const ModelConfig& config = s.checkpoint.model->config();
  std::vector<SiteWrite> writes;
  for (const std::string& text : options.writes) writes.push_back(parse_site_write(text));
  std::vector<SiteValue> seen;
  const auto keep = [&](const std::string& name, const Tensor& value) {
    const auto sizes = value.shape.sizes();
    const auto values = value.values();
    seen.push_back({name, {sizes.begin(), sizes.end()}, {values.begin(), values.end()}});
  };
  const SiteLayers layers = site_layers(config);
  Recorder writer({""}, std::move(writes), layers, {});
  SiteWatcher watcher(options.watch, config);
  Recorder recorder(options.sites, {}, layers,
                    [&](const SiteId& id, const Tensor& value) { keep(name_of(id), value); });
  if (options.gradients) {
    recorder.receive_gradients([&](const SiteId& id, const Tensor& value) { keep(name_of(id) + "_grad", value); });
  }
  TapChain taps({&writer, &watcher, &recorder});

  const std::vector<std::int32_t> tokens = ids(prompt);
  const auto n_rows = static_cast<std::int64_t>(tokens.size());
  const Call call(s, std::move(cancel), &taps);
  Arena arena;
  Pass pass = call.context().make_pass(arena, {{0, n_rows, 0, nullptr}});
  pass.logits = {LogitRequest::Rows::range, 0, n_rows, {}};
  if (options.gradients) {
    Gradients of_no_params;
    call.context().set_adapters(pass);
    call.context().check_ids(tokens);
    learn_targets(*s.checkpoint.model, pass, tokens, next_tokens(config, s.kv_types, tokens, "gradients"),
                  of_no_params);
  } else {
    call.context().forward(pass, tokens);
  }
  writer.check_writes_met();
  if (watcher.is_watching()) watcher.check_all_met();
  if (options.sites != std::vector<std::string>{""}) recorder.check_all_met();
  return seen;
}

double LanguageModel::grad(const Prompt& prompt, const std::function<void(NamedValue gradient)>& receive,
                           const Watch& watch, std::stop_token cancel) const {
  const State& s = *state_;
  const Model& model = *s.checkpoint.model;
  if (!s.applied.empty()) {
    throw Unsupported("grad", "expected a model without adapters: `vitrine grad --adapter` computes their gradients");
  }
  const std::vector<std::int32_t> tokens = ids(prompt);
  std::vector<std::int32_t> targets = next_tokens(model.config(), s.kv_types, tokens, "grad");
  SiteWatcher watcher(watch, model.config());
  const Call call(s, std::move(cancel), watcher.is_watching() ? &watcher : nullptr);
  call.context().check_ids(tokens);
  Gradients gradients;
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string& name, const Shape&) {
    if (!is_constant(model.config(), name)) gradients.add(param);
  });
  Arena arena;
  Pass pass = call.context().make_pass(arena, {{0, static_cast<std::int64_t>(tokens.size()), 0, nullptr}});
  const double loss = learn_targets(model, pass, tokens, std::move(targets), gradients);
  watcher.check_all_met();
  ValueSink sink(receive);
  write_gradients(sink, s.checkpoint, gradients, call.pool());
  return loss;
}

}  // namespace vitrine
