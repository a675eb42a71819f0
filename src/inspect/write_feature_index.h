// Writes the file of an index of features (inspect/feature_index.h), array by array, from what is on disk.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "inspect/feature_records.h"

namespace vitrine {

/// The number of tokens that a feature raises most, and of those that it lowers most.
constexpr std::size_t kIndexLogits = 10;

/// What does not belong to one feature. All is borrowed.
struct IndexFacts {
  Json facts;                                                           ///< `feature_index` of the file.
  std::string contexts_path, logits_path;                               ///< logits_path may be "": there are none.
  std::function<std::vector<std::int32_t>(std::int64_t start)> ids_at;  ///< The ids of a window.
  std::vector<std::string> texts;                                       ///< Of the tokens; empty: not known.
};

/// The files of contexts are those of `records`; the file of logits has kIndexLogits LogitWeight of both kinds for each
/// feature. Throws BadCheckpoint for files that are damaged.
void write_feature_index(const std::string& path, const FeatureRecords& records, const IndexFacts& facts);

}  // namespace vitrine
