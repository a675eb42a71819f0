// Attribution graphs in tests: graphs of models with dictionaries, as dense rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "circuit/graph.h"
#include "circuit/prune.h"
#include "features/support.h"
#include "model/sublayers.h"

namespace vitrine::test {

struct CircuitRun {
  GraphOptions options{};
  int threads = 1;
  const Kernels* kernels = &default_kernels();
};

inline AttributionGraph graph_of(const Model& model, const Applied& transcoders, std::span<const std::int32_t> ids,
                                 const CircuitRun& o = {}) {
  ThreadPool pool(o.threads);
  GenerateContext context{.model = &model, .pool = &pool, .kernels = o.kernels};
  context.modifiers.dictionaries = transcoders;
  CircuitValues values = read_circuit_values(context, ids, o.options.logits, o.options.zero_positions);
  return make_graph(context, ids, std::move(values), o.options, testing::TempDir() + "/graph");
}

/// A row as `[n]`.
inline std::vector<double> dense_row(const AttributionGraph& graph, std::int64_t row) {
  std::vector<double> all(static_cast<std::size_t>(graph.n_nodes()));
  for (std::int64_t i = graph.indptr[static_cast<std::size_t>(row)];
       i < graph.indptr[static_cast<std::size_t>(row) + 1]; ++i) {
    const auto edge = static_cast<std::size_t>(i);
    all[static_cast<std::size_t>(graph.indices[edge])] = static_cast<double>(graph.effects[edge]);
  }
  return all;
}

/// The largest difference between a row's sum and its value, over the sum of the magnitudes.
inline double error_of_sums(const AttributionGraph& graph) {
  double most = 0;
  for (std::int64_t row = 0; row < graph.n_nodes(); ++row) {
    const auto i = static_cast<std::size_t>(row);
    const std::vector<double> effects = dense_row(graph, row);
    double sum = static_cast<double>(graph.bias[i]), size = std::abs(sum);
    for (const double effect : effects) sum += effect, size += std::abs(effect);
    if (size > 0) most = std::max(most, std::abs(sum - static_cast<double>(graph.value[i])) / size);
  }
  return most;
}

/// A matrix of random numbers from −scale to scale that a dictionary keeps.
inline Param random_matrix(Dictionary& d, const Shape& shape, double scale) {
  auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(shape.count()));
  const std::uint64_t sequence = (static_cast<std::uint64_t>(d.output.layer) << 8) + d.storage.size();
  for (std::size_t i = 0; i < values->size(); ++i) {
    (*values)[i] = static_cast<float>(scale * (2 * uniform(7, sequence, i) - 1));
  }
  Param param;
  param.shape = shape;
  const std::int64_t cols = shape[shape.rank() - 1];
  param.view = view_of(values->data(), shape.count() / cols, cols, cols);
  d.storage.push_back(values);
  return param;
}

/// What the last sublayer of a block reads, or the stream before it if it has no norm.
inline SiteId input_of_last(const BlockConfig& block, BlockSite at) {
  std::size_t i = block.sublayers.size() - 1;
  while (i > 0 && block.sublayers[i].input == Sublayer::Input::previous) --i;
  const Sublayer& sublayer = block.sublayers[i];
  if (sublayer.norms.pre) return at(names_of(sublayer).pre.normalized);
  return at(i == 0 || sublayer.input == Sublayer::Input::block ? Site::resid_pre : Site::resid_mid);
}

/// A transcoder with random weights for the last sublayer of each block that does not mix tokens.
inline Applied random_transcoders(const Model& model, std::int64_t d_sae, bool has_skip) {
  Applied all;
  const ModelConfig& config = model.config();
  for (std::size_t layer = 0; layer < config.blocks.size(); ++layer) {
    const SublayerNames names = names_of(config.blocks[layer].sublayers.back());
    const BlockSite at{static_cast<int>(layer), config.stack()};
    auto d = std::make_shared<Dictionary>();
    d->architecture = "transcoder";
    d->input = input_of_last(config.blocks[layer], at);
    d->output = at(names.out);
    const std::int64_t n = config.d_model;
    d->encoder = random_matrix(*d, {d_sae, n}, 0.6);
    d->encoder_bias = random_matrix(*d, {d_sae}, 0.6);
    d->decoder = random_matrix(*d, {d_sae, n}, 0.4);
    d->decoder_bias = random_matrix(*d, {n}, 0.4);
    if (has_skip) d->skip = random_matrix(*d, {n, n}, 0.2);
    all.push_back({d});
  }
  return all;
}

}  // namespace vitrine::test
