// The account of a model: operations, bytes and memory of one forward, op by op, from a dry run of its config.
//
//   FLOPs         2 per multiply-add of a product; norms, softmax and activation functions have none.
//                 `visible_flops` excludes the pairs of query and key that the mask hides
//   bytes         weights as stored, read once per pass; activations in float32, read and written; keys and values that
//                 attention reads and appends, and states that are read and written; only chosen experts are counted
//   map_bytes     H · n · S floats per layer: the attention maps, which other engines store and vitrine does not
//   intensity     FLOPs / bytes
//   training      three times a forward: the products of the forward and of the gradients of inputs and of weights
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/layout.h"
#include "model/config.h"
#include "parallel/thread_pool.h"
#include "pass/adapter.h"
#include "pass/ledger.h"
#include "tensor/dtype.h"

namespace vitrine {

enum class Phase : std::uint8_t {
  forward,  ///< `length` tokens, logits at every position.
  prefill,  ///< `length` tokens, logits at the last position.
  decode,   ///< Token number `length` of a sequence, with the keys and values of the earlier ones in the cache.
  train,    ///< `length` tokens forward and backward, a loss at every position.
};
// In an encoder–decoder each phase has a source, too: decode has its keys and values in the cache, the others encode
// it; prefill then reads the first token of the target.

std::string_view name_of(Phase phase);

struct Workload {
  Phase phase = Phase::prefill;
  std::int64_t batch = 1;       ///< Sequences.
  std::int64_t length = 1;      ///< Tokens of each; of an encoder–decoder those of the target.
  double bytes_per_weight = 2;  ///< As stored.
  KvTypes kv{};                 ///< The types of the KV cache.
  /// Tokens of each source of an encoder–decoder; absent: as many as the target has.
  std::optional<std::int64_t> source_length{};
  AppliedAdapters adapters{};  ///< Of all sequences. In training, their matrices learn, and nothing else.
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
  std::string name;   ///< Without the layer: `attn.wq`, `attn.scores`, `mlp.w_up`, `unembed`.
  std::string shape;  ///< Of the operands: `[5, 2304] × [2304, 2048]`.
  Cost cost;          ///< In one layer.
};

struct Account {
  std::vector<Op> first;  ///< Before the layers; all ops of an encoder outside its layers.
  struct Layers {
    Stack stack = Stack::only;
    LayerGroup group;
    std::vector<Op> ops;
  };
  std::vector<Layers> layers;
  std::vector<Op> last;
  Cost total;
};

/// The name of the Op that an op of a ledger belongs to: `mlp.experts.w_up` for `mlp.experts.3.w_up`.
std::string account_name(const LedgerOp& op);

/// Throws BadInput for a batch or length out of range.
Account account(const ModelConfig& config, const Workload& workload);

/// The memory of a run, in bytes.
struct MemoryEstimate {
  double weights = 0;      ///< As stored; float32 in training.
  double kv_cache = 0;     ///< Layers with a window hold only the window; of states there are two, as a pass has.
  double activations = 0;  ///< Of a pass over at most `chunk` tokens per sequence; in training, of a whole pass.
  double optimizer = 0;    ///< In training: gradients and AdamW's two moments, float32.

  double total() const { return weights + kv_cache + activations + optimizer; }
};

MemoryEstimate estimate_memory(const ModelConfig& config, const Workload& workload, std::int64_t chunk);

/// A forward and backward of `batch` sequences at once.
struct TrainingPass {
  std::int64_t batch = 1;
  std::int64_t length = 1;
  std::optional<std::int64_t> source_length{};  ///< Absent: as many as `length`.
  DType dtype = DType::f32;                     ///< The type of the weights.
  bool recompute = false;
  bool dropout = false;
  AppliedAdapters adapters{};  ///< Their matrices learn, and nothing else.
  bool adapter_dropout = false;
  std::optional<SiteId> begin{};  ///< As in TrainingRequest.
};

/// The peak memory of activations and their gradients in such a pass, in bytes, on the threads of `pool`.
std::int64_t training_bytes(const ModelConfig& config, const TrainingPass& of, ThreadPool& pool);

/// Bytes that one more token adds to the KV cache. Layers with a window do not grow.
double kv_bytes_per_token(const ModelConfig& config, KvTypes kv);

/// The bytes of the states of a sequence, which do not depend on its length, and of a snapshot of them in a cache,
/// which aligns them. 0 without states.
struct StateBytes {
  std::int64_t states = 0, snapshot = 0;
};
StateBytes state_bytes(const ModelConfig& config);

}  // namespace vitrine
