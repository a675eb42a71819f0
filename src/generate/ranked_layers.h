// The blocks of a model on the ranks of a run (--split layers).
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "model/model.h"
#include "pass/model_split.h"
#include "ranks/ranks.h"

namespace vitrine {

/// Where the blocks of each of `n` parts begin, and the end: the largest part is as small as possible. `bytes`: the
/// weights of each block; the last part also has `head_bytes`. No part is empty.
std::vector<int> divide_layers(std::span<const std::int64_t> bytes, std::int64_t head_bytes, int n);

/// Throws on all ranks unless they have models of the same shapes and types, and on which a split works.
void check_splits(Ranks& ranks, const Model& model);

class RankedLayers : public ModelSplit {
 public:
  /// Throws BadInput if there are more ranks than blocks or the ranks have different models, Unsupported for a model
  /// with an encoder. Borrows the ranks.
  RankedLayers(Ranks& ranks, const Model& model);
  RankedLayers(const RankedLayers&) = delete;
  RankedLayers& operator=(const RankedLayers&) = delete;
  /// If an error leaves messages under way, gives up (Ranks::give_up).
  ~RankedLayers() override;

  int first() const override { return bounds_[static_cast<std::size_t>(ranks_.rank())]; }
  int end() const override { return bounds_[static_cast<std::size_t>(ranks_.rank()) + 1]; }
  bool has_head() const override { return ranks_.rank() == ranks_.size() - 1; }
  void receive(const Tensor& stream) override;
  void send(const Tensor& stream) override;
  void share(const Tensor& logits) override;
  void gather(const Tensor& own, const Tensor& whole, std::int64_t unit) override;

 private:
  Ranks& ranks_;
  std::vector<int> bounds_;
  std::deque<std::pair<std::vector<float>, Tickets>> sending_;  // streams under way
};

}  // namespace vitrine
