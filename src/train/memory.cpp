#include "train/memory.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "inspect/account.h"
#include "model/count.h"
#include "train/distributed/gradient_sum.h"

namespace vitrine {
namespace {

constexpr double kFloat = 4;
constexpr double kProgram = 16e6;  // code, tables, threads
constexpr double kMpi = 20e6;      // MPI's libraries and buffers

/// The elements of arrays of all parameters that a rank keeps.
struct KeptElements {
  double weights = 0, masters = 0, gradients = 0, moments = 0;
};

/// Sharded gradients: the own slices and their partial sums; the gradients of the bucket that is computed, of the one
/// under way, and of all outside the blocks; and the slices of two buckets from all other ranks.
double sharded_gradients(const Slices& slices, const RankShare& share, double own, double largest, double outside) {
  std::int64_t levels = 0;
  for (std::int64_t n = share.ranks; n < share.micro_batches; n += share.ranks) levels |= n;
  std::int64_t most = 0;
  for (std::size_t b = 0; b < slices.buckets(); ++b) most = std::max(most, slices.slice(b, share.rank).size());
  const double senders = as_double(std::min<std::int64_t>(share.ranks, share.micro_batches) - 1);
  return own * (1 + std::popcount(static_cast<std::uint64_t>(levels))) + 2 * largest + outside +
         2 * senders * as_double(most);
}

KeptElements kept_elements(const Slices& slices, const RankShare& share) {
  double all = 0, own = 0, largest = 0, outside = 0;
  for (std::size_t b = 0; b < slices.buckets(); ++b) {
    const double size = as_double(slices.bucket(b).size());
    all += size;
    own += as_double(slices.slice(b, share.rank).size());
    if (slices.is_block(b)) {
      largest = std::max(largest, size);
    } else {
      outside += size;
    }
  }
  KeptElements kept{all, all, all * as_double(gradient_buffers(share.micro_batches, share.rank, share.ranks)), all};
  if (share.ranks == 1) return kept;
  if (share.shard >= Shard::optimizer) kept.masters = kept.moments = own;
  if (share.shard >= Shard::gradients) kept.gradients = sharded_gradients(slices, share, own, largest, outside);
  if (share.shard >= Shard::parameters) kept.weights = std::min(all, own + 2 * largest + outside);
  return kept;
}

}  // namespace

std::vector<TrainParam> trainable_params(const ModelConfig& config) {
  std::vector<TrainParam> params;
  for_each_shape(config, [&](const std::string& name, const Shape& shape) {
    if (!is_constant(config, name)) params.push_back({name, shape});
  });
  return params;
}

std::vector<MemoryPart> state_memory(const Slices& slices, const TrainWorkload& w) {
  const KeptElements kept = kept_elements(slices, w.share);
  return {{"parameters", kept.weights * as_double(size_of(w.dtype))},
          {"masters", w.dtype == DType::f32 ? 0 : kept.masters * kFloat},
          {"gradients", kept.gradients * kFloat},
          {"moments", kept.moments * kFloat * n_moments(w.optimizer)},
          {"program", kProgram + (w.share.ranks > 1 ? kMpi : 0)}};
}

std::vector<MemoryPart> training_memory(const ModelConfig& config, const TrainWorkload& w, ThreadPool& pool) {
  TrainingPass pass{w.batch, w.seq_len, {}, w.dtype, w.recompute, w.dropout};
  const bool is_adapter = w.trainable != nullptr;
  std::vector<TrainParam> params = trainable_params(config);
  if (is_adapter) {
    pass.adapters = w.trainable->adapters();
    pass.adapter_dropout = w.adapter_dropout;
    pass.begin = w.trainable->first_learning_block();
    params.assign(w.trainable->params().begin(), w.trainable->params().end());
  }
  std::vector<MemoryPart> parts = state_memory(Slices(params, w.share.ranks), w);
  if (is_adapter) {  // its base is kept, too
    for_each_param(config, w.trainable->model().params(),
                   [&](const Param& param, const std::string&, const Shape& shape) {
                     parts.front().bytes += as_double(bytes_of(param.view.dtype, shape.count()));
                   });
  }
  parts.insert(parts.end() - 1, {"activations", as_double(training_bytes(config, pass, pool))});
  std::erase_if(parts, [](const MemoryPart& part) { return part.bytes == 0; });
  return parts;
}

double training_flops_per_token(const ModelConfig& config) {
  double weights = config.head.tied ? as_double(config.vocab_size * config.embedding_width()) : 0;
  for_each_shape(config, [&](const std::string& name, const Shape& shape) {
    const bool is_looked_up = name == "embed.weight" || name == "pos_embed.weight";
    if (shape.rank() < 2 || is_looked_up) return;
    double part = 1;
    if (name.find(".experts.") != std::string::npos) {
      for (const BlockConfig& block : config.blocks) {
        if (const auto* moe = find<MoeConfig>(block)) part = as_double(moe->top_k) / as_double(moe->n_experts);
      }
    }
    weights += part * as_double(shape.count());
  });
  return 6 * weights;
}

double total_bytes(const std::vector<MemoryPart>& parts) {
  double sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

}  // namespace vitrine
