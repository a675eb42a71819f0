// A training step of several ranks on paper: what each rank keeps and sends, and how long the step takes.
//
// Bytes and messages are exactly those that a run without router_bias_rate counts (ranks.jsonl). The time is that of a
// simple network: a rank sends and receives one byte after another at the bandwidth, both at once, and each byte
// arrives after the latency. The schedule is that of train/distributed/shared_steps.h, bucket by bucket:
//
//   compute    the rank that computes most micro-batches
//   exposed    what the step takes in addition, because ranks wait for messages: communication that does not overlap
//              with computation
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"
#include "parallel/thread_pool.h"
#include "train/memory.h"

namespace vitrine {

struct ClusterSpeed {
  double bandwidth = 125e6;    ///< Of a link, bytes per second: 1 Gbit/s.
  double latency_s = 100e-6;   ///< Of a message.
  double flops_per_s = 100e9;  ///< Of a rank.
};

struct ClusterAccount {
  std::vector<std::int64_t> bytes_sent, messages;  ///< Of each rank.
  std::vector<double> memory_bytes;
  double compute_s = 0, communication_s = 0, exposed_s = 0;

  double step_s() const { return compute_s + exposed_s; }
};

/// The account of `workload` on workload.share.ranks ranks; workload.batch are the sequences of a micro-batch. Throws
/// BadInput if there are fewer micro-batches than ranks.
ClusterAccount account_cluster(const ModelConfig& config, const TrainWorkload& workload, const ClusterSpeed& speed,
                               ThreadPool& pool);

}  // namespace vitrine
