#include "model/mixers/convolution/convolution.h"

#include "base/error.h"
#include "model/checks.h"
#include "ops/unfold.h"

namespace vitrine {

Tensor forward(Pass& p, BlockSite at, const ConvolutionConfig& c, const ConvolutionLayerParams& w,
               const SublayerInput& in) {
  const Tensor neighbours = unfold(p, at.stack, in.normed, c.width);
  const Tensor pre = p.tap(at(ConvolutionSite::pre), linear(p, w.kernel, neighbours));
  return activate(p, c.activation, pre);
}

void check(std::string_view where, const ConvolutionConfig& c) {
  check_size(where, "convolution_width", c.width, 1 << 10);
  if (c.width % 2 == 0) throw BadInput(where, "convolution_width: expected an odd number, got {}", c.width);
}

void list_params(ParamList& list, const std::string& at, const ConvolutionConfig& c, ConvolutionLayerParams& w,
                 Widths d) {
  list.linear(w.kernel, at + ".kernel", d.stream, d.stream * c.width, true);
}

void divide(WeightDivider&, ConvolutionConfig&, ConvolutionLayerParams&) {
  throw Unsupported("--split heads", "a convolution is not divided by heads: use --split layers");
}

}  // namespace vitrine
