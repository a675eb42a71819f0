// What a training run holds in memory, part by part, known before its first step: the trainer prints it.
//
//   parameters   weights, in their type; masters: float32, beside bf16 weights
//   gradients    float32
//   moments      AdamW two, SGD one, float32
//   activations  what a dry run of one micro-batch, forward and backward, takes at most: values, their gradients, and
//                the ops' scratch
//   program      everything else
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "parallel/thread_pool.h"
#include "tensor/dtype.h"
#include "train/optimizer.h"

namespace vitrine {

struct TrainWorkload {
  std::int64_t batch = 1;    ///< Sequences of a micro-batch.
  std::int64_t seq_len = 1;  ///< Tokens of each.
  DType dtype = DType::f32;  ///< Of the weights.
  OptimizerConfig::Kind optimizer = OptimizerConfig::Kind::adamw;
  bool recompute = false;
  bool dropout = false;
};

struct MemoryPart {
  std::string name;
  double bytes = 0;
};

/// For a run on the threads of `pool`. Parts of no bytes are left out.
std::vector<MemoryPart> training_memory(const ModelConfig& config, const TrainWorkload& workload, ThreadPool& pool);

/// Operations of forward and backward a token: 6 for each weight that it is multiplied with, the head included, of
/// experts those that are chosen.
double training_flops_per_token(const ModelConfig& config);
double total_bytes(const std::vector<MemoryPart>& parts);

}  // namespace vitrine
