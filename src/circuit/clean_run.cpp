#include "circuit/clean_run.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/math.h"
#include "inspect/text_pass.h"
#include "pass/dictionary_sites.h"

namespace vitrine {
namespace {

/// Reads the sparse activations and some sites of a pass.
class ValueTaps : public Taps {
 public:
  ValueTaps(CircuitValues& to, std::vector<float>& logits, std::vector<float>& unembedded)
      : to_(to), logits_(logits), unembedded_(unembedded) {
    to_.errors.resize(to_.transcoders.size());
    to_.constants.resize(to_.transcoders.size());
  }

  bool wants(const SiteId& id) const override {
    if (id.dictionary != nullptr) {
      return layer_of(id) >= 0 && (id.value == DictionarySite::error || id.value == DictionarySite::recons);
    }
    return id == SiteId{Site::unembed_out} || id == SiteId{Site::logits};
  }
  bool wants_sparse(const SiteId& id) const override { return layer_of(id) >= 0; }
  void visit_sparse(Pass&, const SiteId& id, const SparseRows& rows) override {
    const auto layer = static_cast<std::int32_t>(layer_of(id));
    for (std::size_t t = static_cast<std::size_t>(to_.zero_positions); t < rows.rows.size(); ++t) {
      for (const SparseValue& active : rows.rows[t]) {
        to_.features.push_back({layer, static_cast<std::int32_t>(t), active.index, active.value});
      }
    }
  }
  Tensor visit(Pass&, const SiteId& id, const Tensor& value) override {
    const auto copy = [&](std::vector<float>& to, std::int64_t n) { to.assign(value.data, value.data + n); };
    if (id.dictionary == nullptr) {
      copy(id.site == Site::logits ? logits_ : unembedded_, value.count());
      return value;
    }
    const auto layer = static_cast<std::size_t>(layer_of(id));
    const std::int64_t n = std::min(to_.zero_positions, value.rows()) * value.row_size();
    std::vector<float>& constants = to_.constants[layer];
    if (id.value == DictionarySite::recons) {
      copy(constants, n);
      return value;
    }
    std::vector<float>& errors = to_.errors[layer];
    copy(errors, value.count());
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      constants[i] += errors[i];
      errors[i] = 0;
    }
    return value;
  }

 private:
  std::int64_t layer_of(const SiteId& id) const {
    const auto found = std::ranges::find_if(to_.transcoders, [&](const Dictionary* d) {
      return &d->name == id.dictionary && d->output == id.without_dictionary();
    });
    return found == to_.transcoders.end() ? -1 : found - to_.transcoders.begin();
  }

  CircuitValues& to_;
  std::vector<float>&logits_, &unembedded_;
};

void check_model(const GenerateContext& context) {
  const ModelConfig& config = context.model->config();
  if (config.encoder || is_bidirectional(config)) {
    throw Unsupported("circuit", "expected a model that reads a text from left to right");
  }
  if (!config.has_head) throw Unsupported("circuit", "the model has no head, so it has no logits");
  if (config.head.transform || config.head.width) {
    throw Unsupported("circuit", "the head has a layer before the unembedding, whose edges are not computed");
  }
  if (!context.modifiers.controls.empty()) {
    throw Unsupported("circuit", "expected no control vector, which is no node of the graph");
  }
  for (const AppliedAdapter& applied : context.modifiers.adapters) {
    if (applied.adapter->find("unembed.weight") == nullptr) continue;
    throw Unsupported("circuit", "an adapter changes the unembedding; merge it first (vitrine lora merge)");
  }
}

/// The transcoders by layer.
std::vector<const Dictionary*> transcoders_of(const GenerateContext& context) {
  const std::size_t n_layers = context.model->config().blocks.size();
  std::vector<const Dictionary*> all(n_layers);
  for (const AppliedDictionary& applied : context.modifiers.dictionaries) {
    const Dictionary& d = *applied.dictionary;
    const std::string where = name_of(d.output);
    if (!d.is_transcoder())
      throw Unsupported(where, "expected a transcoder, got a sparse autoencoder ({})", d.architecture);
    if (d.scaling.is_undone && !d.scaling.is_identity()) {
      throw Unsupported(where, "the transcoder undoes its normalization, so its output is not linear in its features");
    }
    const auto layer = static_cast<std::size_t>(d.output.layer);
    if (layer >= n_layers) throw Unsupported(where, "expected the output site of a block");
    if (all[layer] != nullptr) throw BadInput(where, "expected one transcoder for each layer, got two");
    all[layer] = &d;
  }
  for (std::size_t layer = 0; layer < n_layers; ++layer) {
    if (all[layer] != nullptr) continue;
    throw BadInput("--transcoders", "expected a transcoder for each of {} layers, got none for layer {}", n_layers,
                   layer);
  }
  return all;
}

/// The most probable tokens of a row of logits.
std::vector<LogitNode> choose(std::span<const float> logits, std::span<const float> unembedded, float scale,
                              const LogitChoice& choice) {
  const double largest = static_cast<double>(*std::ranges::max_element(logits));
  double total = 0, mean = 0;
  for (const float logit : logits) total += math::exp(static_cast<double>(logit) - largest);
  for (const float value : unembedded) mean += static_cast<double>(value) / static_cast<double>(unembedded.size());
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const std::size_t n = std::min<std::size_t>(order.size(), static_cast<std::size_t>(choice.max_n_logits));
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(n), [&](std::int32_t a, std::int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  });
  std::vector<LogitNode> nodes;
  double sum = 0;
  for (std::size_t i = 0; i < n && (i == 0 || sum < choice.desired_logit_prob); ++i) {
    const double probability = math::exp(static_cast<double>(logit(order[i])) - largest) / total;
    const double value = static_cast<double>(unembedded[static_cast<std::size_t>(order[i])]) - mean;
    nodes.push_back(
        {order[i], static_cast<float>(probability), static_cast<float>(value * static_cast<double>(scale))});
    sum += probability;
  }
  return nodes;
}

}  // namespace

CircuitValues read_circuit_values(const GenerateContext& given, std::span<const std::int32_t> ids,
                                  const LogitChoice& choice, std::int64_t zero_positions) {
  check_model(given);
  CircuitValues values;
  values.transcoders = transcoders_of(given);
  values.zero_positions = std::min(zero_positions, std::ssize(ids));
  std::vector<float> logits, unembedded;
  ValueTaps taps(values, logits, unembedded);
  GenerateContext context = given;
  context.taps = &taps;
  Arena arena;
  Pass pass = text_pass(context, arena, ids);
  pass.compute = Compute::f32;
  pass.logits.rows = LogitRequest::Rows::last_of_segments;
  pass.logits.receive = [](std::int64_t, const Tensor&) {};
  context.model->forward(pass, ids);
  values.logits = choose(logits, unembedded, context.model->config().head.scale, choice);
  values.layout = NodeLayout(values.n_layers(), std::ssize(ids), std::ssize(values.logits), values.features);
  return values;
}

}  // namespace vitrine
