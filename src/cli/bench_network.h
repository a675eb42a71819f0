// bench --network: latency and bandwidth between the ranks of a run.
#pragma once

namespace vitrine::cli {

void run_bench_network(double peer_timeout_s, bool json);

}  // namespace vitrine::cli
