// Reads generation_config.json, and what old config.json files say about generation.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/load.h"

namespace vitrine {

/// Sets the special ids, the sampling defaults and the search defaults of a checkpoint whose model is loaded, from
/// generation_config.json, and those ids that it lacks from config.json. Every key of transformers that changes a text
/// is read, or is named in SearchDefaults::refused unless it is in `allowed`; other keys have no effect there either.
/// Throws BadCheckpoint for values of another type.
void read_generation(const std::string& folder, const Json& config, const std::vector<std::string>& allowed,
                     Checkpoint& checkpoint);

}  // namespace vitrine
