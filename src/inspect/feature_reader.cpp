#include "inspect/feature_reader.h"

#include <algorithm>

#include "inspect/feature_taps.h"
#include "inspect/text_pass.h"

namespace vitrine {

void visit_features(const GenerateContext& given, std::span<const std::int32_t> ids, Taps& taps) {
  constexpr std::int64_t kFeaturesAtOnce = std::int64_t{1} << 24;  // of a chunk, active or not
  const ModelConfig& config = given.model->config();
  if (config.encoder) throw Unsupported("features", "the model is an encoder–decoder");
  GenerateContext context = given;
  context.taps = &taps;
  for (const AppliedDictionary& applied : given.modifiers.dictionaries) {
    context.chunk = std::min(context.chunk, std::max<std::int64_t>(1, kFeaturesAtOnce / applied.dictionary->d_sae()));
  }
  Arena arena;
  if (is_bidirectional(config)) {
    Pass pass = text_pass(context, arena, ids);
    context.model->forward(pass, ids);
    return;
  }
  text_pass(context, arena, ids);  // checks the text
  KvCache cache = context.make_cache(std::ssize(ids));
  for (std::int64_t first = 0; first < std::ssize(ids); first += context.chunk) {
    const std::int64_t n = std::min(context.chunk, std::ssize(ids) - first);
    Pass pass = context.make_pass(arena, {{0, n, first, &cache}});
    context.forward(pass, ids.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n)));
  }
}

std::vector<ActiveFeatures> read_features(const GenerateContext& context, std::span<const std::int32_t> ids,
                                          std::optional<std::size_t> top) {
  FeatureRows rows(context.modifiers.dictionaries, top);
  FeatureTaps taps(rows);
  visit_features(context, ids, taps);
  return rows.take();
}

std::string key_of(const Dictionary& dictionary) {
  return dictionary.name.empty() ? name_of(dictionary.output) : dictionary.name;
}

std::vector<SparseValue> strongest(std::span<const SparseValue> row, std::size_t k) {
  std::vector<SparseValue> found(std::min(k, row.size()));
  std::ranges::partial_sort_copy(row, found, [](const SparseValue& a, const SparseValue& b) {
    return a.value != b.value ? a.value > b.value : a.index < b.index;
  });
  return found;
}

Json features_json(std::span<const SparseValue> row) {
  Json features = Json::array();
  for (const auto& [index, value] : row) features.push_back({{"index", index}, {"value", value}});
  return features;
}

}  // namespace vitrine
