#include <algorithm>

#include "look/figures.h"

namespace vitrine {
namespace {

/// The arrays of some features, element by element.
struct Dashboards {
  std::vector<std::int32_t> counts{}, ids{}, at{}, logit_ids{};
  std::vector<double> densities{}, edges{}, starts{};
  std::vector<float> maxima{}, values{}, weights{};

  void add(const FeatureDashboard& own) {
    counts.insert(counts.end(), own.counts.begin(), own.counts.end());
    densities.push_back(own.density);
    edges.push_back(own.edges.front());
    edges.push_back(own.edges.back());
    for (const std::vector<LogitWeight>* const logits : {&own.logits.top, &own.logits.bottom}) {
      for (std::size_t i = 0; i < kFeatureLogits; ++i) {
        const bool has_weight = i < logits->size();
        logit_ids.push_back(has_weight ? (*logits)[i].id : -1);
        weights.push_back(has_weight ? (*logits)[i].weight : static_cast<float>(kNoValue));
      }
    }
    for (std::size_t i = 0; i < kDashboardContexts; ++i) add(i < own.contexts.size() ? &own.contexts[i] : nullptr);
  }

  /// The tokens around the strongest; null: there is no such context.
  void add(const FeatureContext* own) {
    const auto none = static_cast<float>(kNoValue);
    maxima.push_back(own != nullptr ? own->max : none);
    starts.push_back(own != nullptr ? static_cast<double>(own->start) : kNoValue);
    const std::int64_t n = own != nullptr ? std::ssize(own->ids) : 0;
    const std::int64_t last = std::max<std::int64_t>(0, n - kDashboardTokens);
    const std::int64_t position = own != nullptr ? own->position : 0;
    const std::int64_t first = std::clamp<std::int64_t>(position - kDashboardBefore, 0, last);
    at.push_back(own != nullptr ? static_cast<std::int32_t>(position - first) : -1);
    for (std::int64_t t = first; t < first + kDashboardTokens; ++t) {
      ids.push_back(t < n ? own->ids[static_cast<std::size_t>(t)] : -1);
      values.push_back(t < n ? own->values[static_cast<std::size_t>(t)] : none);
    }
  }
};

}  // namespace

void add_dashboards(const FeatureIndex& index, const std::vector<std::int32_t>& features, const std::string& name,
                    LookData& data) {
  Dashboards all;
  for (const std::int32_t feature : features) all.add(index.dashboard(feature));
  const std::int64_t n = std::ssize(features);
  constexpr std::int64_t c = kDashboardContexts, m = kFeatureLogits;
  const std::string block = "dashboards", of = name + ".dashboards.";
  data.add(block, of + "feature", {n}, features);
  data.add(block, of + "density", {n}, all.densities);
  data.add(block, of + "histogram", {n, n > 0 ? std::ssize(all.counts) / n : 0}, all.counts);
  data.add(block, of + "edge", {n, 2}, all.edges);
  data.add(block, of + "logit.id", {n, 2, m}, all.logit_ids);
  data.add(block, of + "logit.weight", {n, 2, m}, all.weights);
  data.add(block, of + "context.max", {n, c}, all.maxima);
  data.add(block, of + "context.start", {n, c}, all.starts);
  data.add(block, of + "context.at", {n, c}, all.at);
  data.add(block, of + "context.id", {n, c, kDashboardTokens}, all.ids);
  data.add(block, of + "context.value", {n, c, kDashboardTokens}, all.values);
}

}  // namespace vitrine
