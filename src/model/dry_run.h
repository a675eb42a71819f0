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
  CountedMemory& memory() { return memory_; }
  /// Runs model.forward, or, where the pass has a tape, model.learn, over ids that are never read.
  void run(const Model& model);

 private:
  CountedMemory memory_;
  Arena arena_{&memory_};
  Pass pass_;
};

}  // namespace vitrine
