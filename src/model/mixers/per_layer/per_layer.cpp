#include "model/mixers/per_layer/per_layer.h"

#include "model/checks.h"

namespace vitrine {

Tensor forward(Pass& p, BlockSite at, const PerLayerConfig& c, const PerLayerParams& w, const SublayerInput& in) {
  const Tensor own = columns(p, in.per_layer, at.layer * c.width, c.width);
  const Tensor input = p.tap(at(PerLayerSite::per_layer_input), own);
  const Tensor gate = p.tap(at(PerLayerSite::ple_pre), linear(p, w.w_gate, in.normed));
  const Tensor post = p.tap(at(PerLayerSite::ple_post), gated(p, c.activation, gate, input));
  return p.tap(at(PerLayerSite::ple_proj), linear(p, w.w_proj, post));
}

void check(std::string_view where, const PerLayerConfig& c) {
  check_size(where, "width of per-layer embeddings", c.width);
}

void list_params(ParamList& list, const std::string& at, const PerLayerConfig& c, PerLayerParams& w, Widths d) {
  list.linear(w.w_gate, at + ".w_gate", c.width, d.stream, false);
  list.linear(w.w_proj, at + ".w_proj", d.stream, c.width, false);
}

void tap_input(Pass& p, BlockSite at, const PerLayerConfig&, SublayerInput& in) {
  tap_stream(p, at(PerLayerSite::ple_in), in);
}

}  // namespace vitrine
