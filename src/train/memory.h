// The memory of a training run, part by part, estimated before its first step.
//
//   parameters   weights, in their type; masters: float32, with bf16 weights
//   gradients    float32
//   moments      AdamW two, SGD one, float32
//   activations  the peak of a dry run of one micro-batch, forward and backward: values, their gradients, and the
//                scratch of the ops
//   program      everything else
//
// With --shard, a rank keeps its slices of them, and whole buckets while they are used
// (train/distributed/shared_steps.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "parallel/thread_pool.h"
#include "tensor/dtype.h"
#include "train/distributed/slices.h"
#include "train/optimizer.h"
#include "train/trainable.h"

namespace vitrine {

/// A rank of a run, and what it keeps of the arrays above.
struct RankShare {
  int rank = 0, ranks = 1;
  std::int64_t micro_batches = 1;  ///< Of a step of all ranks.
  Shard shard = Shard::none;
};

struct TrainWorkload {
  std::int64_t batch = 1;    ///< Sequences of a micro-batch.
  std::int64_t seq_len = 1;  ///< Tokens of each.
  DType dtype = DType::f32;  ///< Of the weights.
  OptimizerConfig::Kind optimizer = OptimizerConfig::Kind::adamw;
  bool recompute = false;
  bool dropout = false;
  RankShare share{};
  const Trainable* trainable = nullptr;  ///< Set if an adapter learns. Its base is mapped.
  bool adapter_dropout = false;
};

struct MemoryPart {
  std::string name;
  double bytes = 0;
};

/// The parameters of a config, for Slices.
std::vector<TrainParam> trainable_params(const ModelConfig& config);
/// The parts of a rank but its activations, which `slices` divide.
std::vector<MemoryPart> state_memory(const Slices& slices, const TrainWorkload& workload);
/// The parts for a run on the threads of `pool`. Parts of zero bytes are omitted. Throws as count_params does.
std::vector<MemoryPart> training_memory(const ModelConfig& config, const TrainWorkload& workload, ThreadPool& pool);

/// Operations of forward and backward per token: 6 for each weight that it is multiplied by, including the head and the
/// chosen experts; the products of attention are not counted.
double training_flops_per_token(const ModelConfig& config);
double total_bytes(const std::vector<MemoryPart>& parts);

}  // namespace vitrine
