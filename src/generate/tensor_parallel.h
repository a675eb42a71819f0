// Tensor parallelism (--split heads): the heads of a model on the ranks of a run. Each rank has some rows of every
// weight (column-parallel, in Megatron's words), and an all-gather completes a value before the next weight reads it.
//
// Row-parallel products, as in Megatron, would send less, but add partial sums of each element.
#pragma once

#include <memory>
#include <vector>

#include "generate/distributed_model.h"

namespace vitrine {

class TensorParallelModel : public DistributedModel, private WeightDivider {
 public:
  /// Throws BadInput if there are more ranks than query heads or the ranks have different models, Unsupported for a
  /// model with other layers than attention. Borrows the ranks.
  TensorParallelModel(Ranks& ranks, const std::shared_ptr<const Model>& model);

  int first(Stack) const override { return 0; }
  int end(Stack stack) const override { return static_cast<int>(stack_of(stack).n_layers()); }
  void receive(const Tensor&) override {}
  void send(Pass&, const Tensor&) override { release_embedding(); }
  void share(const Tensor&) override {}
  Tensor visit(Pass& p, const SiteId& id, const Tensor& value) override;
  void visit_step(Pass& p, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count) override;
  void visit_steps(Pass& p, const SiteId& id, const Tensor& value) override;

 protected:
  std::int64_t bound(const Parts& parts, std::int64_t width, int n) const override;
  Range columns_of_rank(const Parts& parts, std::int64_t width) const override;

 private:
  int n_ranks() const override { return ranks_.size(); }
  int rank() const override { return ranks_.rank(); }
  RowRange columns_of_rank(std::int64_t width) const override { return columns_of_rank(Parts(), width); }
  void keep_rows(LinearParams& w, RowRange rows) override { DistributedModel::keep_rows(w, rows); }
  void keep_part(LinearParams& w) override { DistributedModel::keep_part(w); }
  Param part_of(const Param& param, RowRange range) override { return DistributedModel::part_of(param, range); }
  void divide(StackConfig& c, StackParams& w);
  /// Of the whole model.
  const StackConfig& stack_of(Stack stack) const;
  /// Null: the layer has none.
  const AttendConfig* heads_at(const BlockSite& at) const;
  /// The size of a dimension in the whole model, and the parts into which it is divided; nullopt: it is not.
  struct Divided {
    std::int64_t size;
    Parts parts;
  };
  std::optional<Divided> divided(const SiteId& id, Dim dim) const;
  Tensor visit_part(Pass& p, const SiteId& id, const Tensor& value, int axis, const Divided& of);
};

}  // namespace vitrine
