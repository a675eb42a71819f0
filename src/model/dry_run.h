// The forward without arithmetic: the same code on tensors that have shapes and no elements.
//
// What a model makes, costs and needs in memory is read off such a run, so nothing but the forward itself knows which
// sublayers a block has.
#pragma once

#include "model/model.h"

namespace vitrine {

/// A model whose parameters have names and shapes, but no elements: for dry runs alone.
Model shape_model(const ModelConfig& config, DType dtype = DType::f32);

/// A pass over shapes: its arena counts memory that is not there.
class DryPass {
 public:
  /// `pool`: ops take scratch for each of its threads. The rows of the pass are those of `segments`.
  DryPass(ThreadPool& pool, std::vector<Segment> segments);

  Pass& pass() { return pass_; }
  /// What the gradients of values take, for a tape of this pass.
  CountedMemory& gradient_memory() { return gradient_memory_; }
  /// Bytes of activations, scratch and gradients of values that the passes so far have touched.
  std::int64_t bytes() const { return arena_.touched_bytes() + gradient_memory_.most_bytes(); }
  /// Runs model.forward, or, where the pass has a tape, model.learn, over ids that are never read.
  void run(const Model& model);

 private:
  CountedMemory arena_memory_, gradient_memory_;
  Arena arena_{&arena_memory_};
  Pass pass_;
};

}  // namespace vitrine
