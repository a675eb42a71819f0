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
  const FfnSites sites{at(Site::mlp_pre),   at(Site::mlp_pre_linear), at(Site::mlp_post), at(Site::mlp_proj),
                       at(Site::lora_gate), at(Site::lora_up),        at(Site::lora_down)};
  return ffn(p, sites, std::get<DenseConfig>(c.ffn), w.ffn, x);
}

/// The sites of the second half of a sublayer: what happens to its output.
struct JoinSites {
  Norm post;                ///< Inside the branch.
  Site out;                 ///< The branch, as it is added to the stream.
  std::optional<Site> sum;  ///< Absent in the middle of a parallel block.
  Norm sum_norm;            ///< Of the sum.
  Site normalized;
};
constexpr JoinSites kAfterAttention{Norm::ln1_post, Site::attn_out, Site::resid_mid, Norm::mid,
                                    Site::normalized_resid_mid};
constexpr JoinSites kInParallel{Norm::ln1_post, Site::attn_out, {}, Norm::mid, Site::normalized_resid_mid};
constexpr JoinSites kAfterFfn{Norm::ln2_post, Site::mlp_out, Site::resid_post, Norm::post, Site::normalized_resid_post};

/// The stream x plus the output y of a sublayer.
Tensor join(Pass& p, BlockSite at, const JoinSites& sites, const SublayerNorms& c, const SublayerNormParams& w,
            float factor, const Tensor& x, Tensor y) {
  y = scale(p, factor, norm(p, at(sites.post), c.post, w.post, y));
  y = p.tap(at(sites.out), dropout(p, at(sites.out), y));
  Tensor sum = add(p, x, y);
  if (sites.sum) sum = p.tap(at(*sites.sum), sum);
  if (!c.sum) return sum;
  return p.tap(at(sites.normalized), norm(p, at(sites.sum_norm), c.sum, w.sum, sum));
}

/// The stream as the input of a sublayer, which a tap may replace.
Tensor input(Pass& p, const SiteId& at, const Tensor& x) {
  // A copy, so that the gradient at this site comes from the sublayer alone.
  const bool copies = p.is_taped() && p.wants(at);
  return p.tap(at, copies ? row_range(p, x, 0, x.rows()) : x);
}

/// The output of cross-attention; no data if the pass needs only its keys and values.
Tensor cross_attention(Pass& p, BlockSite at, const BlockConfig& c, const BlockParams& w, const Tensor& encoded,
                       const Tensor& x) {
  AttentionInput in;
  in.normed =
      norm(p, at(Norm::ln1), c.norms.cross_attn.pre, w.cross_attn_norms.pre, input(p, at(Site::cross_attn_in), x));
  in.encoded = encoded;
  return attention(p, at, *c.cross_attention, w.cross_attention, in, {});
}

/// A block with a residual stream.
Tensor transformer_block(Pass& p, BlockSite at, const BlockConfig& c, const BlockParams& w, const BlockContext& context,
                         const Tensor& x) {
  if (p.ends_before(at(Site::attn_in))) return x;
  AttentionInput in = head_inputs(p, at, c.attention(), c.norms.attn.pre, w.attn_norms.pre, x);
  in.normed = norm(p, at(Norm::ln1), c.norms.attn.pre, w.attn_norms.pre, x);
  in.rope = &context.rope;
  const Tensor a = attention(p, at, c.attention(), w.attention, in, context.bias);
  if (p.ends_before(at(Site::ln1_post_scale))) return x;
  const bool is_parallel = c.residual == BlockConfig::Residual::parallel;
  Tensor mid =
      join(p, at, is_parallel ? kInParallel : kAfterAttention, c.norms.attn, w.attn_norms, c.residual_scale, x, a);

  if (c.cross_attention) {
    const BlockSite cross = at.of_cross();
    if (p.ends_before(cross(Site::cross_attn_in))) return mid;
    const Tensor y = cross_attention(p, cross, c, w, context.encoded, mid);
    if (p.ends_before(cross(Site::ln1_post_scale))) return mid;
    mid = join(p, cross, kAfterAttention, c.norms.cross_attn, w.cross_attn_norms, c.residual_scale, mid, y);
  }
  if (p.ends_before(at(Site::mlp_in))) return mid;

  Tensor ffn_in = in.normed;
  if (!c.norms.ffn_reads_attn_pre) {
    ffn_in = input(p, at(Site::mlp_in), is_parallel ? x : mid);
    ffn_in = norm(p, at(Norm::ln2), c.norms.ffn.pre, w.ffn_norms.pre, ffn_in);
  }
  return join(p, at, kAfterFfn, c.norms.ffn, w.ffn_norms, c.residual_scale, mid, ffn(p, at, c, w, ffn_in));
}

/// A layer whose cell reads the stream, and whose states replace it.
Tensor recurrent_block(Pass& p, BlockSite at, const RecurrentConfig& c, const RecurrentParams& w,
                       const BlockContext& context, const Tensor& x) {
  const auto layer = static_cast<std::size_t>(at.layer);
  RecurrentContext own{context.encoded};
  if (c.bridge && context.source_states != nullptr) own.source = &(*context.source_states)[layer];
  if (context.last_states != nullptr) own.last = (*context.last_states)[layer];
  const Tensor y = recurrent_layer(p, at, c, w, own, x);
  return p.tap(at(Site::resid_post), dropout(p, at(Site::resid_post), y));
}

/// act(x · W + b)
Tensor dense_block(Pass& p, BlockSite at, const PerceptronConfig& c, const LinearParams& w, const Tensor& x) {
  const Tensor pre = p.tap(at(Site::mlp_pre), linear(p, w, x));
  const Tensor y = p.tap(at(Site::mlp_post), activate(p, c.activation, pre));
  return p.tap(at(Site::resid_post), dropout(p, at(Site::resid_post), y));
}

}  // namespace

Tensor block(Pass& p, BlockSite at, const BlockConfig& c, const BlockParams& w, const BlockContext& context,
             const Tensor& x) {
  const Tensor in = p.tap(at(Site::resid_pre), x);
  if (const RecurrentConfig* const own = c.recurrent()) return recurrent_block(p, at, *own, w.recurrent, context, in);
  if (const auto* dense = std::get_if<PerceptronConfig>(&c.mixer)) return dense_block(p, at, *dense, w.dense, in);
  return transformer_block(p, at, c, w, context, in);
}

}  // namespace vitrine
