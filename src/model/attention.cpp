#include "model/attention.h"

#include "base/exchanged.h"

namespace vitrine {
namespace {

using Parts = ModelSplit::Parts;

/// q or k `[T, n, head_dim]`, normalized over each head or over all heads as one vector. `parts`: those of a split.
Tensor norm_heads(Pass& p, const NormSite& at, const std::optional<QkNormConfig>& c, const NormParams& w,
                  const Tensor& x, const Parts& parts) {
  if (!c) return x;
  if (c->over != QkNormConfig::Over::all_heads) return norm(p, at, c->norm, w, x);
  const Tensor all = p.whole(x, w.weight.shape[0], parts);
  const Tensor y = norm(p, at, c->norm, w, all.reshaped({all.rows(), 1, all.row_size()}));
  return p.part(y, x.row_size(), parts).reshaped(x.shape);
}

}  // namespace

Tensor attention(Pass& p, BlockSite at, const AttentionConfig& c, const AttentionParams& w, const AttentionInput& x,
                 const Tensor& bias) {
  const Tensor& key_rows = at.cross ? x.encoded : x.normed;
  const Shape q_shape{x.normed.rows(), c.n_heads, c.head_dim};
  Tensor q = p.tap(at(Site::q), project_heads(p, at, Site::lora_q, w.wq, x.normed, x, x.q, q_shape)), k, v;
  if (key_rows.data != nullptr) {
    const Shape kv_shape{key_rows.rows(), c.n_kv_heads, c.head_dim};
    const Exchanged<RowsOfValue> rows(p.rows, {at.cross ? Stack::encoder : at.stack});
    k = p.tap(at(Site::k), project_heads(p, at, Site::lora_k, w.wk, key_rows, x, x.k, kv_shape));
    v = p.tap(at(Site::v), project_heads(p, at, Site::lora_v, w.wv, key_rows, x, x.v, kv_shape));
  }
  const Parts heads{Parts::Of::heads, at}, kv_heads{Parts::Of::kv_heads, at};
  q = norm_heads(p, at(Norm::q), c.qk_norm, w.q_norm, q, heads);
  if (k.data != nullptr) k = norm_heads(p, at(Norm::k), c.qk_norm, w.k_norm, k, kv_heads);
  if (c.rope) {
    const Rotations& by = x.rope->of(*c.rope);
    q = p.tap(at(Site::rot_q), rope(p, *c.rope, by, q));
    k = p.tap(at(Site::rot_k), rope(p, *c.rope, by, k));
  }
  const std::vector<KeySource> sources = key_sources(p, at, k, v);
  if (p.ends_before(at(Site::scores_raw))) {
    append(p, at, sources);
    return {};
  }
  const Tensor z = p.tap(at(Site::z), attend(p, at, c, c.mask(), q, k, v, sources, bias));
  append(p, at, sources);
  const std::int64_t width = w.wo.weight.shape[1];  // of all heads, also in a split
  const Tensor all = p.whole(z, width, heads).reshaped({z.rows(), width / c.head_dim, c.head_dim});
  const Tensor out = project_out(p, at, w.wo, all);
  return p.tap(at(Site::attn_proj), p.whole(out, x.normed.row_size()));
}

}  // namespace vitrine
