#include "inspect/probe_values.h"

#include <algorithm>

namespace vitrine {

bool has_probes(AppliedDictionaries all) {
  return std::ranges::any_of(all, [](const AppliedDictionary& own) { return is_probe(*own.dictionary); });
}

bool has_features(AppliedDictionaries all) {
  return std::ranges::any_of(all, [](const AppliedDictionary& own) { return !is_probe(*own.dictionary); });
}

Json probe_values_json(std::span<const SequenceRecorder::Recorded> values) {
  constexpr std::string_view kPrefix = "probe.";
  Json list = Json::array();
  for (const SequenceRecorder::Recorded& value : values) {
    if (!value.name.starts_with(kPrefix)) continue;
    Json tokens = Json::array();
    const auto n = static_cast<std::ptrdiff_t>(value.shape.count_from(1));
    for (auto row = value.values.begin(); row != value.values.end(); row += n) {
      tokens.push_back(std::vector<float>(row, row + n));
    }
    list.push_back({{"name", value.name.substr(kPrefix.size())}, {"tokens", std::move(tokens)}});
  }
  return list;
}

}  // namespace vitrine
