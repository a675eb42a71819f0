// From gradients to new parameters: clipping by the global norm, then AdamW or SGD, as PyTorch defines them.
//
//   norm    √ Σ g² over all parameters; g ← g · min(1, max_norm / (norm + 1e-6))        (torch clip_grad_norm_)
//   AdamW   m ← m + (1 − β1)(g − m),  v ← β2 v + (1 − β2) g²,  p ← p (1 − lr · decay),
//           p ← p − lr · m̂ / (√v̂ + eps),  m̂ = m / (1 − β1^t),  v̂ = v / (1 − β2^t)        (Loshchilov & Hutter 2019)
//   SGD     m ← μ m + g + decay · p,  p ← p − lr · m
//
// Weight decay applies to matrices only. Threads share the elements in chunks, and the norm adds the sums of the chunks
// in order, so the bits depend neither on the number of threads nor on the instruction set.
//
// A resumed run first fills state() and calls set_steps().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/gradients.h"
#include "kernels/kernels.h"
#include "parallel/thread_pool.h"
#include "ranks/ranks.h"
#include "tensor/zero_memory.h"
#include "train/trainable.h"

namespace vitrine {

struct OptimizerConfig {
  enum class Kind : std::uint8_t { adamw, sgd };

  Kind kind = Kind::adamw;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0.9;  ///< Of SGD.
  std::optional<double> max_norm = 1.0;

  bool operator==(const OptimizerConfig&) const = default;
};

/// Elements of a chunk: its arrays fit into a core's cache, so rounding reads masters from there.
constexpr std::int64_t kChunk = 4096;

/// The number of float32 arrays that the optimizer keeps for each parameter, each of the parameter's size.
constexpr int n_moments(OptimizerConfig::Kind kind) { return kind == OptimizerConfig::Kind::adamw ? 2 : 1; }

/// What each rank of a run keeps only for its own slices of the parameters (ZeRO's stages; Rajbhandari et al. 2020).
/// Each stage includes those before it.
enum class Shard : std::uint8_t { none, optimizer, gradients, parameters };

constexpr const char* kShardNames[] = {"none", "optimizer", "gradients", "parameters"};
constexpr const char* name_of(Shard shard) { return kShardNames[static_cast<int>(shard)]; }
/// Throws InternalError for another name.
Shard shard_named(std::string_view name);

class Slices;

struct StepReport {
  double grad_norm = 0;    ///< Before clipping.
  double clip_factor = 1;  ///< The factor of the gradients; 0 if skipped.
  bool skipped = false;    ///< The norm was not finite: nothing has changed, and the step does not count.
  std::string not_finite;  ///< If skipped: the first parameter whose gradient has no finite sum of squares.
  /// "" unless skipped.
  std::string why_skipped() const { return skipped ? "the gradient of " + not_finite + " is not finite" : ""; }
};

/// A named array of the optimizer's state.
struct OptimizerArray {
  std::string name;  ///< `exp_avg.NAME`, `exp_avg_sq.NAME` or `momentum.NAME`.
  const Shape* shape;
  std::span<float> values;
};

class Optimizer {
 public:
  /// Sets all moments to zero. Throws BadInput for numbers out of range.
  Optimizer(const OptimizerConfig& config, std::span<const TrainParam> params);

  /// From now on, updates only this rank's slices; the moments of the others are undefined. The ranks exchange the sums
  /// of squares.
  void divide(const Slices& slices, Ranks& ranks);
  bool is_divided() const { return ranks_ != nullptr; }
  /// All values of moment number i < n_moments(kind), at their places (kParamAlignment).
  std::span<float> moment(int i) const {
    const ZeroMemory& m = moments_[static_cast<std::size_t>(i)];
    return {m.floats(), static_cast<std::size_t>(m.size()) / sizeof(float)};
  }

  /// Updates and rounds the values of `params`, the constructor's parameters. `grads[i]` has the layout of params[i].
  StepReport step(ThreadPool& pool, const Kernels& k, std::span<const TrainParam> params,
                  std::span<const float* const> grads, double lr);
  StepReport step(ThreadPool& pool, const Kernels& k, std::span<const TrainParam> params, const Gradients& gradients,
                  double lr);

  const OptimizerConfig& config() const { return config_; }
  std::int64_t steps() const { return steps_; }  ///< Steps that changed the parameters (t above).
  void set_steps(std::int64_t steps) { steps_ = steps; }
  /// The moments, to save or to fill.
  std::vector<OptimizerArray> state(std::span<const TrainParam> params);

 private:
  struct Chunk {
    std::size_t param;
    std::int64_t first, count;
  };

  template <class Visit>
  void for_each_own_chunk(ThreadPool& pool, Visit&& visit) const;
  void share_sums();
  StepReport norm(ThreadPool& pool, const Kernels& k, std::span<const TrainParam> params,
                  std::span<const float* const> grads);

  OptimizerConfig config_;
  std::int64_t steps_ = 0;
  std::vector<Chunk> chunks_;
  Ranks* ranks_ = nullptr;          // of a divided optimizer
  std::vector<std::size_t> owned_;  // its chunks by their owners, and where those of each rank begin
  std::vector<std::size_t> owners_;
  std::vector<float> sums_;          // of squares, one per chunk
  std::vector<std::int64_t> first_;  // of each parameter in moments_
  std::vector<ZeroMemory> moments_;  // each over all parameters
};

}  // namespace vitrine
