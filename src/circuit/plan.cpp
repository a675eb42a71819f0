#include "circuit/plan.h"

#include <algorithm>
#include <chrono>

#include "circuit/linear_rows.h"

namespace vitrine {

GraphPlan plan_graph(const GenerateContext& context, const CircuitValues& values, const GraphOptions& options) {
  const NodeLayout& layout = values.layout;
  GraphPlan plan;
  plan.feature_nodes = std::min(options.max_feature_nodes, layout.n_features());
  plan.tape_bytes = linear_pass_bytes(context, layout.n_tokens());

  // The mean row of a feature: all its sources, and those of them that are errors and tokens.
  double sources = 0, constants = 0;
  for (const FeatureNode& feature : values.features) {
    const RowShape shape(layout, feature.layer, feature.position);
    sources += static_cast<double>(shape.size());
    constants += static_cast<double>((feature.layer + 1) * (feature.position + 1));
  }
  const double n = static_cast<double>(plan.feature_nodes),
               all = std::max<double>(1, static_cast<double>(layout.n_features()));
  const double of_logits = static_cast<double>(layout.n_logits());
  const double of_errors = static_cast<double>((layout.n_layers() + 1) * layout.n_tokens());
  const double stored = n * sources / all + of_logits * (all + of_errors);
  const double edges = n * (constants + (sources - constants) * n / all) / all + of_logits * (n + of_errors);

  constexpr double kBytesOfEdge = sizeof(std::int32_t) + sizeof(float) +  // its source and effect
                                  2 * sizeof(float) + 1;                  // its score, which is sorted
  constexpr double kBytesOfFeature = 2 * sizeof(FeatureNode) + 24 + 2 * sizeof(double);
  constexpr double kBytesOfNode = 8 * sizeof(double);
  plan.disk_bytes = static_cast<std::int64_t>(stored * sizeof(float));
  plan.edge_bytes = static_cast<std::int64_t>(kBytesOfEdge * edges + kBytesOfFeature * all +
                                              kBytesOfNode * (n + of_errors) + sizeof(float) * (all + of_errors));
  return plan;
}

double measure_graph(const GenerateContext& context, std::span<const std::int32_t> ids, const CircuitValues& values,
                     const GraphPlan& plan) {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kSamples = 16;
  double seconds = 0;
  with_linear_rows(context, ids, values, [&](LinearRows& rows) {
    std::vector<float> row;
    const auto compute = [&](std::int64_t node) {
      const auto begun = Clock::now();
      row.resize(static_cast<std::size_t>(rows.shape_of(node).size()));
      rows.compute(node, row);
      return std::chrono::duration<double>(Clock::now() - begun).count();
    };
    const std::int64_t n = values.layout.n_features(), n_samples = std::min(n, kSamples);
    compute(values.layout.logit(0));  // takes memory
    seconds = compute(values.layout.logit(0)) * static_cast<double>(values.layout.n_logits());
    double sampled = 0;
    for (std::int64_t i = 0; i < n_samples; ++i) sampled += compute((2 * i + 1) * n / (2 * n_samples));
    if (n_samples > 0) seconds += sampled / static_cast<double>(n_samples) * static_cast<double>(plan.feature_nodes);
  });
  return seconds;
}

}  // namespace vitrine
