// Ranks that are threads of one process: the same code as over a network, without a launcher.
#pragma once

#include <functional>

#include "ranks/ranks.h"

namespace vitrine::test {

/// Calls work(ranks) on n threads, each of which is a rank, and rethrows the exception of rank 0, or of the first that
/// has one. The last `n_missing` ranks are not started.
void run_local_ranks(int n, const std::function<void(Ranks&)>& work, double peer_timeout_s = 60, int n_missing = 0);

}  // namespace vitrine::test
