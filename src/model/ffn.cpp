#include "model/ffn.h"

#include "ops/elementwise.h"

namespace vitrine {

Tensor ffn(Pass& p, const FfnSites& at, const DenseConfig& c, const FfnParams& w, const Tensor& x) {
  Tensor post;
  if (c.gated) {
    const Tensor gate = p.tap(at.pre, linear(p, w.w_gate, x, AddedSite{at.lora_gate}));
    const Tensor up = p.tap(at.up, linear(p, w.w_up, x, AddedSite{at.lora_up}));
    post = gated(p, c.activation, gate, up);
  } else {
    post = activate(p, c.activation, p.tap(at.pre, linear(p, w.w_up, x, AddedSite{at.lora_up})));
  }
  post = p.whole(p.tap(at.post, post), w.w_down.weight.shape[1]);
  return p.tap(at.out, p.whole(linear(p, w.w_down, post, AddedSite{at.lora_down}), x.row_size()));
}

}  // namespace vitrine
