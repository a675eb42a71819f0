// Commands that a launcher has started as several processes.
#pragma once

#include <functional>
#include <string>

#include "cli/command.h"
#include "ranks/ranks.h"

namespace vitrine::cli {

constexpr double kPeerTimeout_s = 300;

/// Adds --peer-timeout.
void add_peer_timeout(Command& command, double& seconds);

/// How several processes share a model.
struct SplitOptions {
  std::string split;  ///< "layers" or "heads"; "": not at all.
  double peer_timeout_s = kPeerTimeout_s;
};
/// Adds --split and --peer-timeout.
void add_split(Command& command, SplitOptions& options);

/// Whether this process reports what all processes of a run would say: it is alone, or rank 0 of its launch.
bool is_first_process();
/// Throws Unsupported if the launcher has started several processes: `command` would run as many times.
void require_one_process(const std::string& command);
/// The same, unless --split is given.
void require_one_process(const std::string& command, const SplitOptions& options);

/// Meets the other processes, if there are any, and runs `work`. If it throws, one rank reports the error, and all end.
void run_on_ranks(double peer_timeout_s, const std::function<void(Ranks&)>& work);

}  // namespace vitrine::cli
