#include "model/attention.h"

namespace vitrine {
namespace {

/// q or k `[T, n, head_dim]`, normalized over each head or over all heads as one vector.
Tensor norm_heads(Pass& p, const NormSite& at, const std::optional<QkNormConfig>& c, const NormParams& w,
                  const Tensor& x) {
  if (!c) return x;
  if (c->over != QkNormConfig::Over::all_heads) return norm(p, at, c->norm, w, x);
  return norm(p, at, c->norm, w, x.reshaped({x.rows(), 1, x.row_size()})).reshaped(x.shape);
}

}  // namespace

Tensor attention(Pass& p, BlockSite at, const AttentionConfig& c, const AttentionParams& w, const HeadInputs& x) {
  const Shape q_shape{x.all.rows(), c.n_heads, c.head_dim};
  const Shape kv_shape{x.all.rows(), c.n_kv_heads, c.head_dim};
  Tensor q = p.tap(at(Site::q), project_heads(p, w.wq, x, x.q, q_shape));
  Tensor k = p.tap(at(Site::k), project_heads(p, w.wk, x, x.k, kv_shape));
  const Tensor v = p.tap(at(Site::v), project_heads(p, w.wv, x, x.v, kv_shape));
  q = norm_heads(p, at(Norm::q), c.qk_norm, w.q_norm, q);
  k = norm_heads(p, at(Norm::k), c.qk_norm, w.k_norm, k);
  if (c.rope) {
    q = p.tap(at(Site::rot_q), rope(p, *c.rope, q));
    k = p.tap(at(Site::rot_k), rope(p, *c.rope, k));
  }
  const Tensor z = p.tap(at(Site::z), attend(p, at, c, q, k, v));
  return p.tap(at(Site::attn_proj), project_out(p, at, w.wo, z));
}

}  // namespace vitrine
