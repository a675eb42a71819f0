#include "model/layers/perceptron.h"

#include "base/error.h"
#include "model/checks.h"
#include "model/mixers/ffn/sites.h"
#include "ops/dropout.h"

namespace vitrine {

void check(std::string_view where, const PerceptronConfig& c, const LayerPlace& place) {
  if (place.d_source > 0) throw BadInput(where, "dense layers cannot read an encoder's output");
  check_size(where, "d_hidden", c.d_hidden);
}

void list_params(ParamList& list, const PerceptronConfig& c, PerceptronParams& w, const LayerPlace& place) {
  list.linear(w.dense, place.prefix + "dense." + std::to_string(place.layer), c.d_hidden, place.d_in, true);
}

Tensor forward(Pass& p, BlockSite at, const PerceptronConfig& c, const PerceptronParams& w, const LayerContext&,
               const Tensor& x) {
  const Tensor pre = p.tap(at(FfnSite::mlp_pre), linear(p, w.dense, x));
  return p.tap(at(FfnSite::mlp_post), activate(p, c.activation, pre));
}

}  // namespace vitrine
