// The heads of a model on the ranks of a run (--split heads): each rank has some rows of every weight.
//
// Row-parallel products, as in Megatron, would send less, but add partial sums of each element.
#pragma once

#include <memory>
#include <vector>

#include "generate/ranked_model.h"

namespace vitrine {

/// The first query head of part r of n, of which there are at most as many as query heads; for r = n the end. The heads
/// of a part read whole K/V heads, or, if there are fewer of these than parts, the same one.
std::int64_t first_head(const AttendConfig& c, int n, int r);

class RankedHeads : public RankedModel {
 public:
  /// Throws BadInput if there are more ranks than query heads or the ranks have different models, Unsupported for a
  /// model with other layers than attention. Borrows the ranks.
  RankedHeads(Ranks& ranks, const std::shared_ptr<const Model>& model);

  int first(Stack) const override { return 0; }
  int end(Stack stack) const override { return static_cast<int>(stack_of(stack).blocks.size()); }
  void receive(const Tensor&) override {}
  void send(Pass&, const Tensor&) override { release_embedding(); }
  void share(const Tensor&) override {}
  Tensor visit(Pass& p, const SiteId& id, const Tensor& value) override;

 protected:
  std::int64_t bound(const Parts& parts, std::int64_t width, int n) const override;
  Range own_columns(const Parts& parts, std::int64_t width) const override;

 private:
  void divide(AttentionConfig& c, AttentionParams& w);
  void divide(DenseConfig& c, FfnParams& w);
  void divide(BlockConfig& c, BlockParams& w);
  void divide(StackConfig& c, StackParams& w);
  /// The query heads and the K/V heads that this rank computes.
  Range own_heads(const AttendConfig& c) const;
  Range own_kv_heads(const AttendConfig& c) const;
  /// Of the whole model.
  const StackConfig& stack_of(Stack stack) const;
  const AttentionConfig& attention_of(const BlockSite& at) const;
  /// The size of a dimension in the whole model, and the parts into which it is divided; nullopt: it is not.
  struct Divided {
    std::int64_t size;
    Parts parts;
  };
  std::optional<Divided> divided(const SiteId& id, Dim dim) const;
  Tensor visit_part(Pass& p, const SiteId& id, const Tensor& value, int axis, const Divided& of);
};

}  // namespace vitrine
