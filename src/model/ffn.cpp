#include "model/ffn.h"

#include "ops/elementwise.h"

namespace vitrine {

Tensor ffn(Pass& p, BlockSite at, const DenseConfig& c, const FfnParams& w, const Tensor& x) {
  Tensor post;
  if (c.gated) {
    const Tensor gate = p.tap(at(Site::mlp_pre), linear(p, w.w_gate, x));
    const Tensor up = p.tap(at(Site::mlp_pre_linear), linear(p, w.w_up, x));
    post = gated(p, c.activation, gate, up);
  } else {
    post = activate(p, c.activation, p.tap(at(Site::mlp_pre), linear(p, w.w_up, x)));
  }
  post = p.tap(at(Site::mlp_post), post);
  return p.tap(at(Site::mlp_proj), linear(p, w.w_down, post));
}

}  // namespace vitrine
