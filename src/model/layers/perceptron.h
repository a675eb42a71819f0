// A dense layer, which replaces the stream by act(x · W + b).
#pragma once

#include "model/layers/layer.h"
#include "model/mixers/ffn/sites.h"
#include "ops/elementwise.h"

namespace vitrine {

struct PerceptronParams {
  LinearParams dense;  ///< `[d_hidden, in]`
};

struct PerceptronConfig {
  using Params = PerceptronParams;

  std::int64_t d_hidden = 0;
  Activation activation = Activation::silu;

  std::int64_t width() const { return d_hidden; }
  bool operator==(const PerceptronConfig&) const = default;
};

constexpr const SiteTable& site_table(const PerceptronConfig&) { return kFfnSiteTable; }
void check(std::string_view where, const PerceptronConfig& c, const LayerPlace& place);
void list_params(ParamList& list, const PerceptronConfig& c, PerceptronParams& w, const LayerPlace& place);
ConfigFacts describe(const PerceptronConfig& c);
/// `[T, d_hidden]` from x `[T, in]`.
Tensor forward(Pass& p, BlockSite at, const PerceptronConfig& c, const PerceptronParams& w, const LayerContext& context,
               const Tensor& x);

}  // namespace vitrine
