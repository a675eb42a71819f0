#include "model/block.h"

#include "model/attention.h"
#include "model/ffn.h"
#include "ops/elementwise.h"

namespace vitrine {

Tensor block(Pass& p, BlockSite at, const BlockConfig& c, const BlockParams& w, Tensor x) {
  x = p.tap(at(Site::resid_pre), x);
  const HeadInputs in = head_inputs(p, at, c.attention, c.norms.attn_pre, w.attn_pre, x);
  Tensor a = attention(p, at, c.attention, w.attention, in);
  a = p.tap(at(Site::attn_out), norm(p, at(Norm::ln1_post), c.norms.attn_post, w.attn_post, a));
  const Tensor mid = p.tap(at(Site::resid_mid), add(p, x, a));

  const Tensor ffn_in = norm(p, at(Norm::ln2), c.norms.ffn_pre, w.ffn_pre, p.tap(at(Site::mlp_in), mid));
  Tensor f = ffn(p, at, std::get<DenseConfig>(c.ffn), w.ffn, ffn_in);
  f = p.tap(at(Site::mlp_out), norm(p, at(Norm::ln2_post), c.norms.ffn_post, w.ffn_post, f));
  return p.tap(at(Site::resid_post), add(p, mid, f));
}

}  // namespace vitrine
