// Indexes of features, as parts of the command `features`.
#pragma once

#include <string>

#include "cli/command.h"

namespace vitrine::cli {

/// Adds `index` and `show` to `features`.
void add_feature_index(Command& features);

/// Adds --features-index; `what_for` ends its description.
void add_features_index(Command& command, std::string& path, const std::string& what_for);

}  // namespace vitrine::cli
