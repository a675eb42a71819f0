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

/// The second half of a sublayer: what happens to its output.
struct Join {
  Norm post;  ///< Inside the branch.
  const std::optional<NormConfig>& post_config;
  const NormParams& post_params;
  Site out;                 ///< The branch, as it is added to the stream.
  std::optional<Site> sum;  ///< Absent in the middle of a parallel block.
  Norm sum_norm;            ///< Of the sum.
  const std::optional<NormConfig>& sum_config;
  const NormParams& sum_params;
  Site normalized;
};

/// The stream x plus the output y of a sublayer.
Tensor join(Pass& p, BlockSite at, const Join& j, float factor, const Tensor& x, Tensor y) {
  y = scale(p, factor, norm(p, at(j.post), j.post_config, j.post_params, y));
  y = p.tap(at(j.out), dropout(p, at(j.out), y));
  Tensor sum = add(p, x, y);
  if (j.sum) sum = p.tap(at(*j.sum), sum);
  if (!j.sum_config) return sum;
  return p.tap(at(j.normalized), norm(p, at(j.sum_norm), j.sum_config, j.sum_params, sum));
}

}  // namespace

Tensor block(Pass& p, BlockSite at, const BlockConfig& c, const BlockParams& w, Tensor x) {
  x = p.tap(at(Site::resid_pre), x);
  if (p.ends_before(at(Site::attn_in))) return x;
  AttentionInput in = head_inputs(p, at, c.attention(), c.norms.attn_pre, w.attn_pre, x);
  in.normed = norm(p, at(Norm::ln1), c.norms.attn_pre, w.attn_pre, x);
  const Tensor a = attention(p, at, c.attention(), w.attention, in);
  if (p.ends_before(at(Site::ln1_post_scale))) return x;
  const bool is_parallel = c.residual == BlockConfig::Residual::parallel;
  const std::optional<Site> sum = is_parallel ? std::nullopt : std::optional(Site::resid_mid);
  const Join after_attention{
      Norm::ln1_post, c.norms.attn_post,         w.attn_post, Site::attn_out, sum, Norm::mid, c.norms.attn_sum,
      w.attn_sum,     Site::normalized_resid_mid};
  const Tensor mid = join(p, at, after_attention, c.residual_scale, x, a);

  if (p.ends_before(at(Site::mlp_in))) return mid;

  Tensor ffn_in = in.normed;
  if (!c.norms.ffn_reads_attn_pre) {
    ffn_in = is_parallel ? x : mid;
    // A copy, so that the gradient at this site comes from the FFN alone.
    if (p.is_taped() && p.wants(at(Site::mlp_in))) ffn_in = row_range(p, ffn_in, 0, ffn_in.rows());
    ffn_in = p.tap(at(Site::mlp_in), ffn_in);
    ffn_in = norm(p, at(Norm::ln2), c.norms.ffn_pre, w.ffn_pre, ffn_in);
  }
  const Join after_ffn{Norm::ln2_post,  c.norms.ffn_post, w.ffn_post,
                       Site::mlp_out,   Site::resid_post, Norm::post,
                       c.norms.ffn_sum, w.ffn_sum,        Site::normalized_resid_post};
  return join(p, at, after_ffn, c.residual_scale, mid, ffn(p, at, c, w, ffn_in));
}

}  // namespace vitrine
