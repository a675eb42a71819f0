// The options of sampling, which generate and chat share.
#pragma once

#include "checkpoint/load.h"
#include "cli/options.h"

namespace vitrine::cli {

/// Adds --temperature, --top-k, --top-p, --min-p, --repeat-penalty and --greedy.
void add_sampling(CLI::App& command, SamplingOverrides& sampling);

}  // namespace vitrine::cli
