#include "model/block.h"

#include "model/attention.h"
#include "model/ffn.h"
#include "model/moe.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"

namespace vitrine {
namespace {

Tensor ffn(Pass& p, BlockSite at, const BlockConfig& c, const BlockParams& w, const Tensor& x) {
  if (const auto* moe_config = std::get_if<MoeConfig>(&c.ffn)) return moe(p, at, *moe_config, w.moe, x);
  const FfnSites sites{at(Site::mlp_pre), at(Site::mlp_pre_linear), at(Site::mlp_post), at(Site::mlp_proj)};
  return ffn(p, sites, std::get<DenseConfig>(c.ffn), w.ffn, x);
}

}  // namespace

Tensor block(Pass& p, BlockSite at, const BlockConfig& c, const BlockParams& w, Tensor x) {
  x = p.tap(at(Site::resid_pre), x);
  if (p.ends_before(at(Site::attn_in))) return x;
  AttentionInput in = head_inputs(p, at, c.attention(), c.norms.attn_pre, w.attn_pre, x);
  in.normed = norm(p, at(Norm::ln1), c.norms.attn_pre, w.attn_pre, x);
  Tensor a = attention(p, at, c.attention(), w.attention, in);
  if (p.ends_before(at(Site::ln1_post_scale))) return x;
  a = scale(p, c.residual_scale, norm(p, at(Norm::ln1_post), c.norms.attn_post, w.attn_post, a));
  a = p.tap(at(Site::attn_out), dropout(p, at(Site::attn_out), a));
  Tensor mid = add(p, x, a);
  const bool is_parallel = c.residual == BlockConfig::Residual::parallel;
  if (!is_parallel) mid = p.tap(at(Site::resid_mid), mid);

  if (p.ends_before(at(Site::mlp_in))) return mid;

  Tensor ffn_in = in.normed;
  if (!c.norms.ffn_reads_attn_pre) {
    ffn_in = is_parallel ? x : mid;
    // A copy, so that the gradient at this site comes from the FFN alone.
    if (p.is_taped() && p.wants(at(Site::mlp_in))) ffn_in = row_range(p, ffn_in, 0, ffn_in.rows());
    ffn_in = p.tap(at(Site::mlp_in), ffn_in);
    ffn_in = norm(p, at(Norm::ln2), c.norms.ffn_pre, w.ffn_pre, ffn_in);
  }
  Tensor f = ffn(p, at, c, w, ffn_in);
  f = scale(p, c.residual_scale, norm(p, at(Norm::ln2_post), c.norms.ffn_post, w.ffn_post, f));
  f = p.tap(at(Site::mlp_out), dropout(p, at(Site::mlp_out), f));
  return p.tap(at(Site::resid_post), add(p, mid, f));
}

}  // namespace vitrine
