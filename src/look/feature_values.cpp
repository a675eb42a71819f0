#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "inspect/feature_reader.h"
#include "inspect/logit_weights.h"
#include "look/figures.h"

namespace vitrine {
namespace {

/// The logit weights of the features that are among the strongest of a token; none outside the stream.
std::map<std::int32_t, std::vector<LogitWeight>> weights_of(const GenerateContext& context, const ActiveFeatures& own) {
  std::map<std::int32_t, std::vector<LogitWeight>> weights;
  const Dictionary& dictionary = *own.dictionary;
  if (!is_in_stream(*context.model, dictionary)) return weights;
  for (const std::vector<SparseValue>& row : own.rows.rows) {
    for (const SparseValue& feature : row) weights[feature.index];
  }
  std::vector<std::vector<float>> directions;
  for (const auto& [feature, none] : weights) directions.push_back(direction_of(dictionary, feature));
  std::vector<ExtremeLogits> found = extreme_logits(context, directions, kFeatureLogits);
  auto next = found.begin();
  for (auto& [feature, own_weights] : weights) own_weights = std::move((next++)->top);
  return weights;
}

void add_dictionary(const GenerateContext& context, const ActiveFeatures& own, const FeatureIndex* index,
                    const std::string& name, LookData& data) {
  const auto weights = weights_of(context, own);
  std::vector<std::int32_t> indices, ids;
  std::vector<float> values, logits;
  const auto none = static_cast<float>(kNoValue);
  for (const std::vector<SparseValue>& row : own.rows.rows) {
    for (std::size_t i = 0; i < kLookFeatures; ++i) {
      indices.push_back(i < row.size() ? row[i].index : -1);
      values.push_back(i < row.size() ? row[i].value : none);
      const auto known = weights.find(indices.back());
      for (std::size_t j = 0; j < kFeatureLogits; ++j) {
        const bool has_weight = known != weights.end() && j < known->second.size();
        ids.push_back(has_weight ? known->second[j].id : -1);
        logits.push_back(has_weight ? known->second[j].weight : none);
      }
    }
  }
  const std::int64_t n = std::ssize(own.rows.rows);
  constexpr std::int64_t k = kLookFeatures, m = kFeatureLogits;
  data.add("features", name + ".index", {n, k}, indices);
  data.add("features", name + ".value", {n, k}, values);
  data.add("features", name + ".logit.id", {n, k, m}, ids);
  data.add("features", name + ".logit.weight", {n, k, m}, logits);
  if (index == nullptr) return;
  std::set<std::int32_t> shown(indices.begin(), indices.end());
  shown.erase(-1);
  add_dashboards(*index, {shown.begin(), shown.end()}, name, data);
}

}  // namespace

Json add_feature_values(const LookSubject& subject, const Recording& r, LookData& data) {
  Json saes = Json::array();
  if (subject.dictionaries.empty()) return saes;
  GenerateContext context = subject.context;
  context.modifiers.dictionaries = subject.dictionaries;
  const std::vector<ActiveFeatures> all = read_features(context, r.facts.ids, kLookFeatures);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = fmt::format("features.{}", i);
    const Dictionary& d = *all[i].dictionary;
    const FeatureIndex* const index = index_of(subject.feature_indexes, d);
    add_dictionary(context, all[i], index, name, data);
    saes.push_back({{"values", name},
                    {"name", d.name.empty() ? Json() : Json(d.name)},
                    {"site", name_of(d.output)},
                    {"architecture", d.architecture},
                    {"d_sae", d.d_sae()},
                    {"active", all[i].n_active},
                    {"corpus_tokens", index != nullptr ? Json(index->tokens()) : Json()},
                    {"key", index_key(d)}});
  }
  return saes;
}

}  // namespace vitrine
