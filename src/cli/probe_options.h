// The option --probe of commands that run a model.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"

namespace vitrine::cli {

struct ProbeOptions {
  std::vector<std::string> probes;  // [NAME=]FILE[@SITE]
};
/// Adds --probe.
void add_probes(Command& command, ProbeOptions& options);
/// Attaches the probes to the session's model. Throws as vitrine::add_probe() does; Unsupported for a model that
/// several processes share.
void open_probes(const Options& options, const ProbeOptions& probes, Session& session);

}  // namespace vitrine::cli
