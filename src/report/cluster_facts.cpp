#include "report/cluster_facts.h"

#include "base/error.h"

namespace vitrine {

ClusterAccount cluster_of(const ModelConfig& config, std::int64_t batch, std::int64_t length,
                          const ClusterRequest& request) {
  if (batch % request.micro_batches != 0) {
    throw BadInput("--batch", "expected a multiple of --micro-batches ({}), got {}", request.micro_batches, batch);
  }
  TrainWorkload workload{batch / request.micro_batches, length};
  workload.share = {0, request.ranks, request.micro_batches, request.shard};
  ThreadPool pool(1);
  return account_cluster(config, workload, request.speed, pool);
}

Json cluster_json(const ClusterAccount& a) {
  return {{"ranks", a.bytes_sent.size()},   {"bytes_sent", a.bytes_sent}, {"messages", a.messages},
          {"memory_bytes", a.memory_bytes}, {"compute_s", a.compute_s},   {"communication_s", a.communication_s},
          {"exposed_s", a.exposed_s},       {"step_s", a.step_s()}};
}

}  // namespace vitrine
