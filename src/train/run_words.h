// What a checkpoint remembers of the config that made it, so that a run which goes on can be held to it.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "data/split.h"
#include "train/train_config.h"

namespace vitrine {

/// Another `fixed` value would be another run; `free` ones may be changed between two parts of a run, whose steps are
/// then no longer those of a run that never stopped.
struct RunWords {
  Json fixed, free;
};

RunWords words_of(const TrainConfig& config, const SplitCorpus& corpus);

/// Compares a checkpoint's words with the config's. Throws BadInput with the run's folder for a fixed one that differs;
/// tells of free ones.
void check_words(const RunWords& before, const RunWords& now, const std::string& folder,
                 const std::function<void(const std::string&)>& tell);

}  // namespace vitrine
