// A training step on several ranks, as `info` reports it.
#pragma once

#include "base/json.h"
#include "train/distributed/cluster_account.h"

namespace vitrine {

struct ClusterRequest {
  int ranks = 1;
  std::int64_t micro_batches = 1;
  Shard shard = Shard::none;
  ClusterSpeed speed{};
};

/// A step of `batch` sequences of `length` tokens, in float32 and with AdamW. Throws BadInput if the micro-batches do
/// not divide the batch, and as account_cluster() does.
ClusterAccount cluster_of(const ModelConfig& config, std::int64_t batch, std::int64_t length,
                          const ClusterRequest& request);

/// "cluster" of `info --json`.
Json cluster_json(const ClusterAccount& account);

}  // namespace vitrine
