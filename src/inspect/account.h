// The account of a model: operations, bytes and memory of one forward, op by op, read off a dry run of its config.
//
//   FLOPs         2 per multiply-add, of products only (norms, softmax and activations are counted by their bytes);
//                 `visible_flops` leaves out the pairs of query and key that causality and window hide
//   bytes         weights as they are stored, each once a pass; activations in float32, read and written; the K/V that
//                 attention reads and appends; of experts those that are chosen, at most one for each choice
//   map_bytes     H · n · S floats a layer: what an engine that stores attention's maps would write (vitrine does not)
//   intensity     FLOPs / bytes
//   training      three times a forward: the products for the loss, for the inputs' and for the weights' gradients
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/layout.h"
#include "model/config.h"
#include "parallel/thread_pool.h"
#include "tensor/dtype.h"

namespace vitrine {

enum class Phase : std::uint8_t {
  forward,  ///< `length` tokens, logits at every position.
  prefill,  ///< `length` tokens, logits at the last position.
  decode,   ///< One token, the `length`-th of its sequence, keys and values of those before it in the cache.
  train,    ///< `length` tokens forward and backward, a loss at every position.
};
std::string_view name_of(Phase phase);

struct Workload {
  Phase phase = Phase::prefill;
  std::int64_t batch = 1;       ///< Sequences.
  std::int64_t length = 1;      ///< Tokens of each.
  double bytes_per_weight = 2;  ///< As stored.
  DType kv = DType::f32;        ///< The type of the KV cache.
};

struct Cost {
  double flops = 0, visible_flops = 0;
  double weight_bytes = 0, activation_bytes = 0, kv_bytes = 0, map_bytes = 0;

  double bytes() const { return weight_bytes + activation_bytes + kv_bytes; }
  double intensity() const { return bytes() > 0 ? flops / bytes() : 0; }
  Cost& operator+=(const Cost& other);
  Cost operator*(double times) const;
};

struct Op {
  std::string name;   ///< Ours, without the layer: `attn.wq`, `attn.scores`, `mlp.w_up`, `unembed`.
  std::string shape;  ///< What it makes of what: `[5, 2304] × [2304, 2048]`.
  Cost cost;          ///< Of one layer.
};

struct Account {
  std::vector<Op> first;  ///< Before the layers.
  struct Layers {
    LayerGroup group;
    std::vector<Op> ops;
  };
  std::vector<Layers> layers;
  std::vector<Op> last;
  Cost total;  ///< Of all layers.
};

/// Throws BadInput for a batch or length below 1, or a length beyond the context.
Account account(const ModelConfig& config, const Workload& workload);

/// What a run holds in memory, in bytes.
struct MemoryEstimate {
  double weights = 0;      ///< Mapped from the file; in training float32.
  double kv_cache = 0;     ///< Window layers hold their window only.
  double activations = 0;  ///< Of one pass over at most `chunk` tokens a sequence; in training what backward reads.
  double optimizer = 0;    ///< Training: gradients and AdamW's two moments, float32.

  double total() const { return weights + kv_cache + activations + optimizer; }
};

MemoryEstimate estimate_memory(const ModelConfig& config, const Workload& workload, std::int64_t chunk);

/// A forward and backward of `batch` sequences at once.
struct LearningPass {
  std::int64_t batch = 1;
  std::int64_t length = 1;
  DType dtype = DType::f32;  ///< Of the weights.
  bool recompute = false;
  bool dropout = false;
};

/// Bytes of the activations and their gradients that such a pass holds at most, on the threads of `pool`.
std::int64_t learning_bytes(const ModelConfig& config, const LearningPass& of, ThreadPool& pool);

/// Bytes of keys and values that one more token takes in the layers without a window.
double kv_bytes_per_token(const ModelConfig& config, DType kv);

}  // namespace vitrine
