#include "generate/tensor_parallel.h"

#include <algorithm>

#include "base/error.h"
#include "model/mixers/attention/split_heads.h"
#include "ops/attention_sites.h"
#include "pass/pass.h"

namespace vitrine {

TensorParallelModel::TensorParallelModel(Ranks& ranks, const std::shared_ptr<const Model>& model)
    : DistributedModel(ranks, model) {
  ModelConfig config = model->config();
  ModelParams params = model->params();
  ranks.together([&] {
    divide(config, params);
    if (config.encoder) divide(*config.encoder, params.encoder);
  });
  finish(std::move(config), std::move(params));
}

const StackConfig& TensorParallelModel::stack_of(Stack stack) const {
  return stack == Stack::encoder ? *whole_->config().encoder : whole_->config();
}

const AttendConfig* TensorParallelModel::heads_at(const BlockSite& at) const {
  const StackConfig& stack = stack_of(at.stack);
  const auto layer = static_cast<std::size_t>(at.layer);
  return at.cross ? find<CrossAttentionConfig>(stack.blocks[layer]) : heads_of(stack, layer);
}

/// A K/V head that several ranks share is in the part of the first of them.
std::int64_t TensorParallelModel::bound(const Parts& parts, std::int64_t width, int n) const {
  if (parts.of == Parts::Of::columns) return DistributedModel::bound(parts, width, n);
  const AttendConfig& c = *heads_at(parts.at);
  const std::int64_t head = first_head(c, ranks_.size(), n), group = c.n_heads / c.n_kv_heads;
  if (parts.of == Parts::Of::heads) return width / c.n_heads * head;
  return width / c.n_kv_heads * ((head + group - 1) / group);
}

TensorParallelModel::Range TensorParallelModel::columns_of_rank(const Parts& parts, std::int64_t width) const {
  if (parts.of != Parts::Of::kv_heads) return DistributedModel::columns_of_rank(parts, width);
  const AttendConfig& c = *heads_at(parts.at);
  const Range heads = kv_heads_of_rank(c, ranks_.size(), ranks_.rank());
  return {width / c.n_kv_heads * heads.first, width / c.n_kv_heads * heads.end};
}

/// All layers of a stack with a relative bias have the same heads.
void TensorParallelModel::divide(StackConfig& c, StackParams& w) {
  if (c.relative_bias) {
    const Range heads = heads_of_rank(*attention_of(c, 0), ranks_.size(), ranks_.rank());
    w.rel_bias.view = w.rel_bias.view.col_range(heads.first, heads.size());
    w.rel_bias.shape = {w.rel_bias.shape[0], heads.size()};
  }
  for (std::size_t i = 0; i < c.blocks.size(); ++i) {
    if (c.blocks[i].same_as) continue;
    for (std::size_t j = 0; j < c.blocks[i].sublayers.size(); ++j) {
      visit_sublayer(c.blocks[i].sublayers[j], w.blocks[i].sublayers[j],
                     [&](auto& kind, auto& params) { vitrine::divide(*this, kind, params); });
    }
  }
}

std::optional<TensorParallelModel::Divided> TensorParallelModel::divided(const SiteId& id, Dim dim) const {
  if (id.layer < 0) return {};
  const StackConfig& stack = stack_of(id.stack);
  const BlockSite at{id.layer, id.stack, id.cross};
  const AttendConfig* const heads = heads_at(at);
  const auto layer = static_cast<std::size_t>(id.layer);
  const auto* const attention = id.cross ? find<CrossAttentionConfig>(stack.blocks[layer]) : attention_of(stack, layer);
  const auto d_ff = [&] {
    const BlockConfig& block = stack.blocks[static_cast<std::size_t>(id.layer)];
    const auto* const moe = find<MoeConfig>(block);
    if (moe == nullptr) return find<DenseConfig>(block)->d_ff;
    return id.expert == SiteId::kShared ? moe->shared->d_ff : moe->expert.d_ff;
  };
  const bool is_normed_whole =
      attention != nullptr && attention->qk_norm && attention->qk_norm->over == QkNormConfig::Over::all_heads;
  if (is_normed_whole && (dim == dims::Nq || dim == dims::Nk)) return {};
  if (dim == dims::Nq || dim == dims::H) return Divided{heads->n_heads, {Parts::Of::heads, at}};
  if (dim == dims::Nk || dim == dims::K) return Divided{heads->n_kv_heads, {Parts::Of::kv_heads, at}};
  if (dim == dims::d && id.site != Site::resid_pre && id.site != Site::resid_post) return Divided{stack.d_model, {}};
  if (dim == dims::d_ff || dim == dims::d_fe) return Divided{d_ff(), {}};
  return {};
}

/// The taps of every rank see the whole value, so that all ranks continue with the same one.
Tensor TensorParallelModel::visit(Pass& p, const SiteId& id, const Tensor& value) {
  const std::span<const Dim> dims = info(id.site).shape.dims();
  for (int axis = 0; axis < value.shape.rank(); ++axis) {
    const std::optional<Divided> whole = divided(id, dims[static_cast<std::size_t>(axis)]);
    if (whole && value.shape[axis] != whole->size) return visit_part(p, id, value, axis, *whole);
  }
  return p.taps->visit(p, id, value);
}

/// What is computed one row after another is not divided.
void TensorParallelModel::visit_step(Pass& p, const SiteId& id, const Tensor& value, std::int64_t first,
                                     std::int64_t count) {
  p.taps->visit_step(p, id, value, first, count, {});
}

void TensorParallelModel::visit_steps(Pass& p, const SiteId& id, const Tensor& value) {
  p.taps->visit_steps(p, id, value);
}

/// `value` has a part of the whole along the axis.
Tensor TensorParallelModel::visit_part(Pass& p, const SiteId& id, const Tensor& value, int axis, const Divided& of) {
  const Shape& own = value.shape;
  const auto size = [&](int i) { return i == axis ? of.size : own[i]; };
  const Shape shape = own.rank() == 2 ? Shape{size(0), size(1)} : Shape{size(0), size(1), size(2)};
  const std::int64_t unit = own.count_from(axis + 1), n_rows = own.count() / own.count_from(axis);
  const Tensor whole = p.tensor({n_rows, of.size * unit});
  gather(value.reshaped({n_rows, own[axis] * unit}), whole, of.parts);

  const Tensor result = p.taps->visit(p, id, whole.reshaped(shape));
  if (result.data == whole.data) return value;
  if (result.shape != shape) return result;  // an error of the caller
  if (id.site == AttentionSite::attn_in) {   // a K/V head reads its first query head's copy
    const std::int64_t n_kv_heads = heads_at(of.parts.at)->n_kv_heads;
    if (ranks_.size() > n_kv_heads) {
      throw Unsupported(name_of(id), "expected at most {} ranks (the K/V heads) to write to it, got {}", n_kv_heads,
                        ranks_.size());
    }
  }
  const Tensor changed = p.tensor(own);
  take_part(result.reshaped(whole.shape), changed.reshaped({n_rows, own[axis] * unit}), of.parts);
  return changed;
}

}  // namespace vitrine
