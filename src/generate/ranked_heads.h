// The heads of a model on the ranks of a run (--split heads): each rank has some rows of every weight.
//
// Row-parallel products, as in Megatron, would send less, but add partial sums of each element.
#pragma once

#include <memory>
#include <vector>

#include "generate/ranked_model.h"

namespace vitrine {

/// Where the query heads of each of `n` ranks begin, and the end. The heads of a rank share whole groups, or a part of
/// one, of the K/V heads. Throws BadInput for more ranks than K/V heads, unless they are a multiple of these and at
/// most as many as query heads.
std::vector<std::int64_t> divide_heads(std::int64_t n_heads, std::int64_t n_kv_heads, int n);

class RankedHeads : public RankedModel {
 public:
  /// Throws as divide_heads() does, BadInput if the ranks have different models, Unsupported for models whose heads are
  /// not alike or cannot be divided. Borrows the ranks.
  RankedHeads(Ranks& ranks, const std::shared_ptr<const Model>& model);

  int first() const override { return 0; }
  int end() const override { return static_cast<int>(model()->config().blocks.size()); }
  void receive(const Tensor&) override {}
  void send(Pass&, const Tensor&) override { release_embedding(); }
  void share(const Tensor&) override {}
  Tensor visit(Pass& p, const SiteId& id, const Tensor& value) override;

 protected:
  std::int64_t bound(Parts parts, std::int64_t width, int n) const override;

 private:
  void divide(AttentionConfig& c, AttentionParams& w);
  void divide(DenseConfig& c, FfnParams& w);
  void divide(BlockConfig& c, BlockParams& w);
  /// The size of a dimension in the whole model, and the parts into which it is divided; nullopt: it is not.
  struct Divided {
    std::int64_t size;
    Parts parts;
  };
  std::optional<Divided> divided(const SiteId& id, Dim dim) const;
  Tensor visit_part(Pass& p, const SiteId& id, const Tensor& value, int axis, const Divided& of);

  std::vector<std::int64_t> heads_;
};

}  // namespace vitrine
