#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "checkpoint/param_rows.h"
#include "inspect/feature_reader.h"
#include "inspect/logit_weights.h"
#include "look/figures.h"

namespace vitrine {
namespace {

/// What one unit of a feature adds to the site: its row of the decoder, with its factor.
std::vector<float> direction_of(const Dictionary& dictionary, std::int32_t feature) {
  std::vector<float> row(static_cast<std::size_t>(dictionary.d_out()));
  read_row(dictionary.decoder.view, feature, row);
  if (dictionary.decoder_factors.empty()) return row;
  for (float& value : row) value *= dictionary.decoder_factors[static_cast<std::size_t>(feature)];
  return row;
}

/// Whether what a feature adds to the site has the coordinates of the stream, [T, d]. Values of heads do not, even
/// where they are as wide.
bool is_in_stream(const GenerateContext& context, const Dictionary& dictionary) {
  return dictionary.d_out() == context.model->config().d_model &&
         std::ranges::equal(info(dictionary.output.site).shape.dims(), info(Site::resid_pre).shape.dims());
}

/// The logit weights of the features that are among the strongest of a token; none outside the stream.
std::map<std::int32_t, std::vector<LogitWeight>> weights_of(const GenerateContext& context, const ActiveFeatures& own) {
  std::map<std::int32_t, std::vector<LogitWeight>> weights;
  const Dictionary& dictionary = *own.dictionary;
  if (!is_in_stream(context, dictionary)) return weights;
  for (const std::vector<SparseValue>& row : own.rows.rows) {
    for (const SparseValue& feature : row) weights[feature.index];
  }
  std::vector<std::vector<float>> directions;
  for (const auto& [feature, none] : weights) directions.push_back(direction_of(dictionary, feature));
  auto found = largest_logit_weights(*context.model, *context.pool, *context.kernels, directions, kFeatureLogits);
  auto next = found.begin();
  for (auto& [feature, own_weights] : weights) own_weights = std::move(*next++);
  return weights;
}

void add_dictionary(const GenerateContext& context, const ActiveFeatures& own, const std::string& name,
                    LookData& data) {
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
    add_dictionary(context, all[i], name, data);
    const Dictionary& d = *all[i].dictionary;
    saes.push_back({{"values", name},
                    {"name", d.name.empty() ? Json() : Json(d.name)},
                    {"site", name_of(d.output)},
                    {"architecture", d.architecture},
                    {"d_sae", d.d_sae()},
                    {"active", all[i].n_active}});
  }
  return saes;
}

}  // namespace vitrine
