#include "generate/ranked_heads.h"

#include <algorithm>

#include "base/error.h"
#include "pass/pass.h"

namespace vitrine {

std::vector<std::int64_t> divide_heads(std::int64_t n_heads, std::int64_t n_kv_heads, int n) {
  const std::int64_t group = n_heads / n_kv_heads, per_group = n / n_kv_heads;  // ranks
  if (n > n_kv_heads && (n % n_kv_heads != 0 || n > n_heads)) {
    throw BadInput("--split", "expected at most {} ranks (the K/V heads), or a multiple of them up to {}, got {}",
                   n_kv_heads, n_heads, n);
  }
  std::vector<std::int64_t> heads;
  for (std::int64_t r = 0; r <= n; ++r) {
    heads.push_back(n <= n_kv_heads ? n_kv_heads * r / n * group
                                    : r / per_group * group + group * (r % per_group) / per_group);
  }
  return heads;
}

RankedHeads::RankedHeads(Ranks& ranks, const std::shared_ptr<const Model>& model) : RankedModel(ranks, model) {
  ModelConfig config = model->config();
  ModelParams params = model->params();
  ranks.together([&] {
    const AttentionConfig first = config.blocks.front().attention();
    heads_ = divide_heads(first.n_heads, first.n_kv_heads, ranks.size());
    for (std::size_t i = 0; i < config.blocks.size(); ++i) {
      const AttentionConfig& c = config.blocks[i].attention();
      const bool is_alike = c.n_heads == first.n_heads && c.n_kv_heads == first.n_kv_heads;
      if (!is_alike || (c.qk_norm && c.qk_norm->over == QkNormConfig::Over::all_heads)) {
        throw Unsupported("--split", "expected heads that are alike in all layers and have no norm in common");
      }
      divide(config.blocks[i], params.blocks[i]);
    }
  });
  finish(std::move(config), std::move(params));
}

/// The K/V heads of a rank: a head that several ranks share counts as that of the first of them.
std::int64_t RankedHeads::bound(Parts parts, std::int64_t width, int n) const {
  if (parts == Parts::columns) return RankedModel::bound(parts, width, n);
  const AttentionConfig& c = whole_->config().blocks.front().attention();
  const std::int64_t head = heads_[static_cast<std::size_t>(n)], group = c.n_heads / c.n_kv_heads;
  if (parts == Parts::heads) return width / c.n_heads * head;
  return width / c.n_kv_heads * ((head + group - 1) / group);
}

void RankedHeads::divide(AttentionConfig& c, AttentionParams& w) {
  const std::int64_t group = c.n_heads / c.n_kv_heads, d = c.head_dim;
  const std::int64_t first = heads_[static_cast<std::size_t>(ranks_.rank())];
  const std::int64_t end = heads_[static_cast<std::size_t>(ranks_.rank()) + 1];
  const std::int64_t first_kv = first / group, end_kv = (end + group - 1) / group;
  const Range rows = {first * d, end * d}, kv_rows = {first_kv * d, end_kv * d};
  keep_rows(w.wq, rows);
  keep_rows(w.wk, kv_rows);
  keep_rows(w.wv, kv_rows);
  keep_part(w.wo);
  if (c.qk_norm && c.qk_norm->over == QkNormConfig::Over::head_own_weight) {
    w.q_norm = {part_of(w.q_norm.weight, rows), part_of(w.q_norm.bias, rows)};
    w.k_norm = {part_of(w.k_norm.weight, kv_rows), part_of(w.k_norm.bias, kv_rows)};
  }
  c.n_heads = end - first;
  c.n_kv_heads = end_kv - first_kv;
}

void RankedHeads::divide(DenseConfig& c, FfnParams& w) {
  keep_part(w.w_gate);
  keep_part(w.w_up);
  keep_part(w.w_down);
  c.d_ff = own_part(Parts::columns, c.d_ff).size();
}

/// Every rank computes all of the router, which is small.
void RankedHeads::divide(BlockConfig& c, BlockParams& w) {
  divide(c.attention(), w.attention);
  auto* const moe = std::get_if<MoeConfig>(&c.ffn);
  if (moe == nullptr) return divide(std::get<DenseConfig>(c.ffn), w.ffn);
  const DenseConfig expert = moe->expert;
  for (FfnParams& own : w.moe.experts) divide(moe->expert = expert, own);
  if (moe->shared) divide(*moe->shared, w.moe.shared);
}

std::optional<RankedHeads::Divided> RankedHeads::divided(const SiteId& id, Dim dim) const {
  const ModelConfig& config = whole_->config();
  const AttentionConfig& heads = config.blocks.front().attention();
  const auto ffn = [&]() -> const DenseConfig& {
    const auto& own = config.blocks[static_cast<std::size_t>(id.layer)].ffn;
    const auto* const moe = std::get_if<MoeConfig>(&own);
    if (moe == nullptr) return std::get<DenseConfig>(own);
    return id.expert == SiteId::kShared ? *moe->shared : moe->expert;
  };
  switch (dim) {
    case Dim::H:
    case Dim::Nq:
      return Divided{heads.n_heads, Parts::heads};
    case Dim::K:
    case Dim::Nk:
      return Divided{heads.n_kv_heads, Parts::kv_heads};
    case Dim::d:
      return Divided{config.d_model, Parts::columns};
    case Dim::d_ff:
    case Dim::d_fe:
      return Divided{ffn().d_ff, Parts::columns};
    default:
      return {};
  }
}

/// The taps of every rank see the whole value, so that all ranks continue with the same one.
Tensor RankedHeads::visit(Pass& p, const SiteId& id, const Tensor& value) {
  const std::span<const Dim> dims = info(id.site).shape.dims();
  for (int axis = 0; axis < value.shape.rank(); ++axis) {
    const std::optional<Divided> whole = divided(id, dims[static_cast<std::size_t>(axis)]);
    if (whole && value.shape[axis] != whole->size) return visit_part(p, id, value, axis, *whole);
  }
  return p.taps->visit(p, id, value);
}

/// `value` has a part of the whole along the axis.
Tensor RankedHeads::visit_part(Pass& p, const SiteId& id, const Tensor& value, int axis, const Divided& of) {
  const Shape& own = value.shape;
  const auto size = [&](int i) { return i == axis ? of.size : own[i]; };
  const Shape shape = own.rank() == 2 ? Shape{size(0), size(1)} : Shape{size(0), size(1), size(2)};
  const std::int64_t unit = own.count_from(axis + 1), n_rows = own.count() / own.count_from(axis);
  const std::int64_t n_own = own[axis] * unit, width = of.size * unit;
  const Tensor whole = p.tensor({n_rows, width});
  const std::int64_t n_given = own_part(of.parts, width).size();  // none, if another rank gives the shared K/V head
  gather({value.data, {n_rows, n_given < n_own ? 0 : n_own}}, whole, of.parts);

  const Tensor result = p.taps->visit(p, id, whole.reshaped(shape));
  if (result.data == whole.data) return value;
  if (result.shape != shape) return result;  // an error of the caller
  const AttentionConfig& heads = whole_->config().blocks.front().attention();
  if (id.site == Site::attn_in && ranks_.size() > heads.n_kv_heads) {  // a K/V head reads its first query head's copy
    throw Unsupported(name_of(id), "expected at most {} ranks (the K/V heads) to write to it, got {}", heads.n_kv_heads,
                      ranks_.size());
  }
  const std::int64_t first_kv = heads_[static_cast<std::size_t>(ranks_.rank())] / (heads.n_heads / heads.n_kv_heads);
  const std::int64_t first = of.parts == Parts::kv_heads ? first_kv * unit : own_part(of.parts, width).first;
  const Tensor changed = p.tensor(own);
  for (std::int64_t row = 0; row < n_rows; ++row) {
    std::copy_n(result.data + row * width + first, n_own, changed.data + row * n_own);
  }
  return changed;
}

}  // namespace vitrine
