#include "support/pair.h"

namespace vitrine::test {
namespace {

/// The tokens of a pass over several pairs, one segment and one source for each.
struct PairPass {
  Ids ids, sources;

  PairPass(const std::vector<Pair>& pairs, Pass& pass) {
    for (const Pair& pair : pairs) {
      const auto first = static_cast<std::int64_t>(ids.size()),
                 first_source = static_cast<std::int64_t>(sources.size());
      pass.segments.push_back(
          {first, static_cast<std::int64_t>(pair.target.size()), 0, nullptr, static_cast<int>(pass.sources.size())});
      pass.sources.push_back({first_source, static_cast<std::int64_t>(pair.source.size())});
      ids.insert(ids.end(), pair.target.begin(), pair.target.end());
      sources.insert(sources.end(), pair.source.begin(), pair.source.end());
    }
  }
  Tokens tokens() const { return {ids, {}, sources}; }
};

}  // namespace

std::vector<std::vector<float>> batch_logits_of(const Model& model, const std::vector<Pair>& pairs,
                                                const RunOptions& o) {
  std::vector<float> all;
  ThreadPool pool(o.threads);
  Arena arena;
  Pass pass{{pool, *o.kernels, arena}, {}, {}, o.taps, o.kv_types};
  const PairPass input(pairs, pass);
  pass.logits = {LogitRequest::Rows::range, 0, static_cast<std::int64_t>(input.ids.size()),
                 [&](std::int64_t, const Tensor& t) { all.insert(all.end(), t.data, t.data + t.count()); }};
  model.forward(pass, input.tokens());
  std::vector<std::vector<float>> result;
  auto next = all.begin();
  for (const Pair& pair : pairs) {
    const auto n = static_cast<std::int64_t>(pair.target.size()) * model.config().vocab_size;
    result.emplace_back(next, next + n);
    next += n;
  }
  return result;
}

std::vector<float> logits_of(const Model& model, const Pair& pair, const RunOptions& o) {
  return batch_logits_of(model, {pair}, o)[0];
}

std::vector<float> chunked_logits_of(const Model& model, const Pair& pair, std::int64_t chunk, const RunOptions& o) {
  std::vector<float> all;
  ThreadPool pool(o.threads);
  Arena arena;
  const auto n = static_cast<std::int64_t>(pair.target.size());
  KvCache cache = model.make_cache(n, o.kv_types);
  cache.set_source(model.make_source_cache(static_cast<std::int64_t>(pair.source.size()), o.kv_types));
  for (std::int64_t first = 0; first < n; first += chunk) {
    const std::int64_t length = std::min(chunk, n - first);
    Pass pass{{pool, *o.kernels, arena}, {{0, length, first, &cache, first == 0 ? 0 : -1}}, {}, o.taps, o.kv_types};
    Tokens tokens(std::span(pair.target).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(length)));
    if (first == 0) {
      pass.sources = {{0, static_cast<std::int64_t>(pair.source.size())}};
      tokens.source = pair.source;
    }
    pass.logits = {LogitRequest::Rows::range, 0, length,
                   [&](std::int64_t, const Tensor& t) { all.insert(all.end(), t.data, t.data + t.count()); }};
    model.forward(pass, tokens);
  }
  return all;
}

PairGradients::PairGradients(const Model& model, const BackwardOptions& o) : model_(model), o_(o), pool_(o.threads) {
  for_each_param(model.config(), model.params(),
                 [&](const Param& param, const std::string&, const Shape&) { gradients_.add(param); });
}

void PairGradients::forward_backward(const std::vector<Pair>& pairs, float scale) {
  Arena arena;
  Tape tape(gradients_);
  Pass pass{{pool_, *o_.kernels, arena}, {}, {}, o_.taps, o_.kv_types};
  const PairPass input(pairs, pass);
  Ids targets;
  std::vector<float> weights;
  for (const Pair& pair : pairs) {
    targets.insert(targets.end(), pair.target.begin() + 1, pair.target.end());
    targets.push_back(0);
    weights.resize(targets.size(), 1.0f);
    weights.back() = 0;
  }
  LossRequest loss{.targets = targets, .weights = weights, .scale = scale};
  loss.label_smoothing = o_.label_smoothing;
  LossResult found;
  pass.training.tape = &tape;
  pass.training.loss = &loss;
  pass.training.result = &found;
  pass.training.recompute = o_.recompute;
  model_.forward_backward(pass, input.tokens());
  cross_entropy += found.cross_entropy;
}

Values PairGradients::gradients() const {
  Values values;
  for_each_param(model_.config(), model_.params(), [&](const Param& param, const std::string& name, const Shape&) {
    const Tensor gradient = gradients_.of(param);
    values[name] = {gradient.shape, {gradient.data, gradient.data + gradient.count()}};
  });
  return values;
}

}  // namespace vitrine::test
