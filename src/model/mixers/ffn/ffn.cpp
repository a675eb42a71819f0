#include "model/mixers/ffn/ffn.h"

#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "model/checks.h"
#include "model/mixers/ffn/sites.h"
#include "ops/gaussian_topk.h"

namespace vitrine {

Tensor ffn(Pass& p, const FfnSites& at, const DenseConfig& c, const FfnParams& w, const Tensor& x) {
  Tensor post;
  if (c.gated) {
    Tensor gate = p.tap(at.pre, scale(p, c.gate_scale, linear(p, w.w_gate, x, AddedSite{at.lora_gate})));
    const Tensor up = p.tap(at.up, linear(p, w.w_up, x, AddedSite{at.lora_up}));
    if (c.gate_cutoff) {
      const Tensor kept = gaussian_topk(p, *c.gate_cutoff, p.whole(gate, w.w_down.weight.shape[1]));
      gate = p.part(kept, up.row_size(), {});
    }
    post = c.clamped ? clamped_swiglu(p, *c.clamped, gate, up) : gated(p, c.activation, gate, up);
  } else {
    const Tensor pre = p.tap(at.pre, linear(p, w.w_up, x, AddedSite{at.lora_up}));
    post = c.xielu ? xielu(p, w.xielu, pre) : activate(p, c.activation, pre);
  }
  post = p.whole(p.tap(at.post, post), w.w_down.weight.shape[1]);
  const Tensor out = p.whole(linear(p, w.w_down, post, AddedSite{at.lora_down}), x.row_size());
  return p.tap(at.out, scale(p, c.out_scale, out));
}

void check(std::string_view where, const DenseConfig& c) {
  check_size(where, "d_ff", c.d_ff);
  check_number(where, "gate_scale", c.gate_scale);
  check_number(where, "ffn_out_scale", c.out_scale);
  if (c.xielu && c.gated) throw BadInput(where, "xielu: expected an FFN that is not gated");
  if (c.gate_cutoff && (!c.gated || !std::isfinite(*c.gate_cutoff))) {
    throw BadInput(where, "gate_cutoff: expected a finite number, and a gated FFN");
  }
  if (!c.clamped) return;
  if (!c.gated) throw BadInput(where, "clamped_swiglu: expected a gated FFN");
  check_number(where, "limit of clamped_swiglu", c.clamped->limit);
  check_number(where, "alpha of clamped_swiglu", c.clamped->alpha);
}

void list_params(ParamList& list, const std::string& at, const DenseConfig& c, FfnParams& w, Widths d) {
  if (c.gated) list.linear(w.w_gate, at + ".w_gate", c.d_ff, d.stream, c.bias);
  list.linear(w.w_up, at + ".w_up", c.d_ff, d.stream, c.bias);
  if (c.xielu) {
    list.add(w.xielu.alpha_p, at + ".xielu_alpha_p.weight", Shape{1});
    list.add(w.xielu.alpha_n, at + ".xielu_alpha_n.weight", Shape{1});
    list.add(w.xielu.beta, at + ".xielu_beta.weight", Shape{1});
    list.add(w.xielu.eps, at + ".xielu_eps.weight", Shape{1});
  }
  list.linear(w.w_down, at + ".w_down", d.stream, c.d_ff, c.bias || c.down_bias);
}

void tap_input(Pass& p, BlockSite at, const DenseConfig&, SublayerInput& in) { tap_stream(p, at(FfnSite::mlp_in), in); }

Tensor forward(Pass& p, BlockSite at, const DenseConfig& c, const FfnParams& w, const SublayerInput& in) {
  const FfnSites sites{at(FfnSite::mlp_pre),  at(FfnSite::mlp_pre_linear), at(FfnSite::mlp_post),
                       at(FfnSite::mlp_proj), at(FfnSite::lora_gate),      at(FfnSite::lora_up),
                       at(FfnSite::lora_down)};
  return ffn(p, sites, c, w, in.normed);
}

std::optional<double> gguf_word(const DenseConfig& c, std::string_view word) {
  if (word == "d_ff") return static_cast<double>(c.d_ff);
  return {};
}

void divide(WeightDivider& divider, DenseConfig& c, FfnParams& w) {
  divider.keep_part(w.w_gate);
  divider.keep_part(w.w_up);
  divider.keep_part(w.w_down);
  c.d_ff = divider.columns_of_rank(c.d_ff).size();
}

}  // namespace vitrine
