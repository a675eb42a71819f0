#include "model/mixers/conv/conv.h"

#include "base/error.h"
#include "model/checks.h"
#include "ops/elementwise.h"

namespace vitrine {

Tensor forward(Pass& p, BlockSite at, const ConvConfig& c, const ConvParams& w, const SublayerInput& in) {
  const Tensor x = p.tap(at(ConvSite::in), in.normed);
  const Tensor parts = p.tap(at(ConvSite::proj_out), linear(p, w.w_in, x));
  const Tensor before = columns(p, parts, 0, c.channels), after = columns(p, parts, c.channels, c.channels);
  const Tensor value = hadamard(p, before, columns(p, parts, 2 * c.channels, c.channels));
  const Tensor gated_value = p.tap(at(ConvSite::conv_in), value);
  const Tensor y = p.tap(at(ConvSite::conv_out), short_convolution(p, at, {&w.conv, 1}, gated_value, 0));
  return p.tap(at(ConvSite::out), linear(p, w.w_out, hadamard(p, after, y)));
}

void check(std::string_view where, const ConvConfig& c) {
  check_size(where, "d_conv", c.width, 1 << 16);
  check_size(where, "channels of a convolution", c.channels);
}

void list_params(ParamList& list, const std::string& at, const ConvConfig& c, ConvParams& w, Widths d) {
  list.linear(w.w_in, at + ".w_in", 3 * c.channels, d.stream, c.bias);
  list.add(w.conv.weight, at + ".conv.weight", Shape{c.channels, c.width});
  if (c.bias) list.add(w.conv.bias, at + ".conv.bias", Shape{c.channels});
  list.linear(w.w_out, at + ".w_out", d.stream, c.channels, c.bias);
}

std::optional<double> gguf_word(const ConvConfig& c, std::string_view word) {
  if (word == "d_conv") return static_cast<double>(c.width);
  return {};
}

void divide(WeightDivider&, ConvConfig&, ConvParams&) {
  throw Unsupported("--split heads", "a short convolution is not divided by heads: use --split layers");
}

}  // namespace vitrine
