// The heads of a model on the ranks of a run (--split heads): each rank has some rows of every weight.
//
// As each element of a product is one sum over a whole row of the weight, its bits do not depend on the number of
// ranks. Row-parallel products, as in Megatron, would send less, but add partial sums of each element.
#pragma once

#include <memory>
#include <vector>

#include "model/model.h"
#include "pass/model_split.h"
#include "ranks/ranks.h"

namespace vitrine {

/// Where the query heads of each of `n` ranks begin, and the end. The heads of a rank share whole groups, or a part of
/// one, of the K/V heads. Throws BadInput for more ranks than K/V heads, unless they are a multiple of these and at
/// most as many as query heads.
std::vector<std::int64_t> divide_heads(std::int64_t n_heads, std::int64_t n_kv_heads, int n);

class RankedHeads : public ModelSplit {
 public:
  /// Throws as divide_heads() does, BadInput if the ranks have different models, Unsupported for models whose heads are
  /// not alike or cannot be divided. Borrows the ranks.
  RankedHeads(Ranks& ranks, std::shared_ptr<const Model> model);

  /// This rank's part: views of rows of the model's weights.
  const std::shared_ptr<const Model>& model() const { return part_; }

  int first() const override { return 0; }
  int end() const override { return static_cast<int>(part_->config().blocks.size()); }
  bool has_head() const override { return true; }
  void receive(const Tensor&) override {}
  void send(const Tensor&) override {}
  void share(const Tensor&) override {}
  void gather(const Tensor& own, const Tensor& whole, std::int64_t unit) override;

 private:
  std::int64_t cut(std::int64_t width, int rank) const { return width * rank / ranks_.size(); }
  Param rows_of(const Param& param, std::int64_t first, std::int64_t end) const;
  LinearParams rows_of(const LinearParams& w, std::int64_t first, std::int64_t end) const;
  LinearParams part_of(const LinearParams& w) const;
  void divide(AttentionConfig& c, AttentionParams& w) const;
  void divide(DenseConfig& c, FfnParams& w) const;
  void divide(BlockConfig& c, BlockParams& w) const;

  Ranks& ranks_;
  std::vector<std::int64_t> heads_;
  std::shared_ptr<const Model> part_;
};

}  // namespace vitrine
