// The part of a config that a checkpoint stores, so that a resumed run can be compared with it.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "data/split.h"
#include "train/train_config.h"

namespace vitrine {

/// A run can be resumed only with the same `fixed` values. Other `free` values are possible, but then the steps are not
/// those of a run that was never stopped.
struct RunWords {
  Json fixed, free;
};

RunWords words_of(const TrainConfig& config, const SplitCorpus& corpus);

/// Compares a checkpoint's words with the config's. Throws BadInput, with the run's folder, for a fixed one that
/// differs; reports free ones that differ.
void check_words(const RunWords& before, const RunWords& now, const std::string& folder,
                 const std::function<void(const std::string&)>& tell);

}  // namespace vitrine
