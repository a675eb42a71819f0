// Dry runs: the code of the forward on tensors that have shapes but no elements.
//
// The values, costs and memory of a model are derived from dry runs, so the structure of a block exists only once, in
// the forward.
#pragma once

#include "model/model.h"

namespace vitrine {

/// A model for dry runs: its parameters have names and shapes, but no elements.
Model shape_model(const ModelConfig& config, DType dtype = DType::f32);

/// A pass for dry runs. Its arena counts memory without allocating it.
class DryPass {
 public:
  /// Ops allocate scratch for each thread of `pool`, which is otherwise unused.
  DryPass(ThreadPool& pool, std::vector<Segment> segments, std::vector<Segment> sources = {});
  DryPass(const DryPass&) = delete;
  DryPass& operator=(const DryPass&) = delete;

  Pass& pass() { return pass_; }
  /// The memory of a tape for this pass.
  CountedMemory& gradient_memory() { return gradient_memory_; }
  /// Bytes of activations, scratch and gradients of values that a real run would touch.
  std::int64_t bytes() const { return arena_.touched_bytes() + gradient_memory_.max_bytes(); }
  /// Runs model.forward, or model.forward_backward if the pass has a tape.
  void run(const Model& model);

 private:
  CountedMemory arena_memory_, gradient_memory_;
  Arena arena_{&arena_memory_};
  Pass pass_;
};

}  // namespace vitrine
