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
                                      std::span<const std::int32_t> ids, const char* where) {
  if (kv_types != KvTypes()) throw Unsupported(where, "gradients need f32 keys and values");
  if (is_bidirectional(config)) {
    throw Unsupported(where, "the model attends to later tokens, so it has no next-token loss");
  }
  if (ids.size() < 2) {
    throw BadInput(where, "expected at least 2 tokens (the first predicts the second), got {}", ids.size());
  }
  return {ids.begin() + 1, ids.end()};
}

/// What the model reads: in an encoder–decoder, the target and the text. Throws BadInput for a target that does not fit
/// the model.
Tokens tokens_of(const ModelConfig& config, std::span<const std::int32_t> text, std::span<const std::int32_t> target) {
  if (config.encoder && target.empty()) {
    throw BadInput("target", "the model is an encoder–decoder: expected the ids that its decoder reads, got none");
  }
  if (!config.encoder && !target.empty()) {
    throw BadInput("target", "the model has no encoder, so it reads one text only");
  }
  return config.encoder ? Tokens(target, {}, text) : Tokens(text);
}

/// A pass over them.
Pass pass_over(const Tokens& tokens, const GenerateContext& context, Arena& arena) {
  const bool is_pair = !tokens.source.empty();
  const auto n_rows = static_cast<std::int64_t>(tokens.ids.size());
  Pass pass = context.make_pass(arena, {{0, n_rows, 0, nullptr, is_pair ? 0 : -1}});
  if (is_pair) pass.sources = {{0, static_cast<std::int64_t>(tokens.source.size())}};
  return pass;
}

/// Collects the values of a run over `n_rows` tokens.
class ValueList {
 public:
  explicit ValueList(std::int64_t n_rows) : n_rows_(n_rows) {}

  void add(const std::string& name, const Tensor& value) {
    const auto sizes = value.shape.sizes();
    const auto values = value.values();
    all_.push_back({name, {sizes.begin(), sizes.end()}, {values.begin(), values.end()}});
  }
  /// A group of rows of a value, after those before it. `is_elsewhere`: the caller has them.
  void append(const SiteId& id, const Tensor& rows, bool is_elsewhere) {
    const std::string name = name_of(id);
    auto known = std::find_if(all_.begin(), all_.end(), [&](const SiteValue& value) { return value.name == name; });
    if (known == all_.end()) {
      const auto sizes = rows.shape.sizes();
      known = all_.insert(known, {name, {sizes.begin(), sizes.end()}, {}});
      known->shape[0] = 0;
      if (!is_elsewhere) known->values.reserve(static_cast<std::size_t>(n_rows_ * rows.row_size()));
    }
    known->shape[0] += rows.rows();
    if (!is_elsewhere) known->values.insert(known->values.end(), rows.values().begin(), rows.values().end());
  }
  std::vector<SiteValue> take() { return std::move(all_); }

 private:
  std::int64_t n_rows_;
  std::vector<SiteValue> all_;
};

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

Tensor memory_of_logits(std::span<float> logits, std::int64_t n_rows, std::int64_t vocab_size) {
  if (logits.empty()) return {};
  const Shape shape{n_rows, vocab_size};
  if (static_cast<std::int64_t>(logits.size()) != shape.count()) {
    throw BadInput("logits", "expected memory for {} × {} elements, got {}", n_rows, vocab_size, logits.size());
  }
  return {logits.data(), shape};
}

std::vector<SiteValue> LanguageModel::trace(const Prompt& prompt, const TraceOptions& options,
                                            std::stop_token cancel) const {
  const State& s = *state_;
  const ModelConfig& config = s.checkpoint.model->config();
  const std::vector<std::int32_t> text = ids(prompt);
  const Tokens tokens = tokens_of(config, text, options.target);
  if (options.gradients && !options.logits.empty()) {
    throw BadInput("logits", "expected no memory for the logits of a run with gradients");
  }
  const auto n_rows = static_cast<std::int64_t>(tokens.ids.size());
  std::vector<SiteWrite> writes;
  for (const std::string& write : options.writes) writes.push_back(parse_site_write(write));
  const SiteLayers layers = s.layers();
  Recorder writer({""}, std::move(writes), layers, {});
  SiteWatcher watcher(options.watch, layers);
  ValueList seen(n_rows);
  Recorder recorder(options.sites, {}, layers, [&](const SiteId& id, const Tensor& value) {
    if (id.site < Site(Site::unembed_out)) return seen.add(name_of(id), value);
    seen.append(id, value, id.site == Site::logits && !options.logits.empty());
  });
  recorder.receive_groups();
  if (options.gradients) {
    recorder.receive_gradients([&](const SiteId& id, const Tensor& value) { seen.add(name_of(id) + "_grad", value); });
  }
  TapChain taps({&writer, &watcher, &recorder});

  const Call call(s, std::move(cancel), &taps);
  Arena arena;
  Pass pass = pass_over(tokens, call.context(), arena);
  pass.logits = {LogitRequest::Rows::range, 0, n_rows, {}};
  call.context().check_source(tokens.source);
  if (options.gradients) {
    Gradients of_no_params;
    call.context().set_modifiers(pass);
    call.context().check_ids(tokens.ids);
    backward_from_targets(*s.checkpoint.model, pass, tokens, next_tokens(config, s.kv_types, tokens.ids, "gradients"),
                          of_no_params);
  } else {
    pass.logits.into = memory_of_logits(options.logits, n_rows, config.vocab_size);
    call.context().forward(pass, tokens);
  }
  writer.check_writes_met();
  if (watcher.is_watching()) watcher.check_all_met();
  if (options.sites != std::vector<std::string>{""}) recorder.check_all_met();
  return seen.take();
}

double LanguageModel::grad(const Prompt& prompt, const std::function<void(NamedValue gradient)>& receive,
                           const GradOptions& options, std::stop_token cancel) const {
  const State& s = *state_;
  const Model& model = *s.checkpoint.model;
  if (!s.applied.adapters.empty()) {
    throw Unsupported("grad", "expected a model without adapters: `vitrine grad --adapter` computes their gradients");
  }
  const std::vector<std::int32_t> text = ids(prompt);
  const Tokens tokens = tokens_of(model.config(), text, options.target);
  std::vector<std::int32_t> targets = next_tokens(model.config(), s.kv_types, tokens.ids, "grad");
  SiteWatcher watcher(options.watch, s.layers());
  const Call call(s, std::move(cancel), watcher.is_watching() ? &watcher : nullptr);
  call.context().check_ids(tokens.ids);
  call.context().check_source(tokens.source);
  Gradients gradients;
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string& name, const Shape&) {
    if (!is_constant(model.config(), name)) gradients.add(param);
  });
  Arena arena;
  Pass pass = pass_over(tokens, call.context(), arena);
  call.context().set_modifiers(pass);
  const double loss = backward_from_targets(model, pass, tokens, std::move(targets), gradients);
  watcher.check_all_met();
  ValueSink sink(receive);
  write_gradients(sink, s.checkpoint, gradients, call.pool());
  return loss;
}

}  // namespace vitrine
