// What both splits of a model among the ranks of a run have in common: the head, whose rows they divide, and the part
// of the weights that a rank keeps.
//
// As each element of a product is one sum over a whole row of the weight, its bits do not depend on the number of
// ranks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/model.h"
#include "pass/model_split.h"
#include "ranks/ranks.h"
#include "tensor/zero_memory.h"

namespace vitrine {

/// Copies of parts of weights. A mapped file cannot hold parts alone: its pages are larger than their rows, above all
/// if the file has the weight transposed.
class WeightCopies {
 public:
  MatrixView add(const MatrixView& part);

 private:
  std::byte* allocate(std::int64_t bytes);

  std::vector<ZeroMemory> chunks_;
  std::int64_t used_ = 0;  // of the last chunk
};

class DistributedModel : public ModelSplit {
 public:
  /// This rank's part.
  const std::shared_ptr<const Model>& model() const { return part_; }
  /// What an adapter for the whole model does to this part. Borrows the adapter.
  std::shared_ptr<const Adapter> part_of(const Adapter& adapter);

  void gather(const Tensor& own, const Tensor& whole, const Parts& parts) override;
  void take_part(const Tensor& whole, const Tensor& own, const Parts& parts) const override;

 protected:
  using Range = RowRange;

  /// Throws on all ranks unless they have models of the same shapes and types, and one that a split can run. Borrows
  /// the ranks.
  DistributedModel(Ranks& ranks, std::shared_ptr<const Model> model);

  /// Where the n-th part of `width` columns begins.
  virtual std::int64_t bound(const Parts& parts, std::int64_t width, int n) const;
  Range part(const Parts& parts, std::int64_t width, int rank) const {
    return {bound(parts, width, rank), bound(parts, width, rank + 1)};
  }
  /// The columns that this rank computes: its part, or, of K/V heads, also one that is in the part of another rank.
  virtual Range columns_of_rank(const Parts& parts, std::int64_t width) const {
    return part(parts, width, ranks_.rank());
  }

  /// Rows of a matrix, or elements of a vector, if it is present.
  static Param part_of(const Param& param, Range range);
  /// Keeps these rows of a weight and its bias, or an equal part of them.
  void keep_rows(LinearParams& w, Range rows);
  void keep_part(LinearParams& w);
  /// Divides the head and completes the part. Called at the end of the constructor.
  void finish(ModelConfig config, ModelParams params);

  /// After a pass: the rows of the embedding that it has read leave the memory.
  void release_embedding() const;

  Ranks& ranks_;
  const std::shared_ptr<const Model> whole_;

 private:
  std::shared_ptr<WeightCopies> copies_ = std::make_shared<WeightCopies>();
  std::map<std::string, Range> rows_;  // of the weights that are divided
  std::vector<float> arriving_;
  std::shared_ptr<const Model> part_;
};

}  // namespace vitrine
