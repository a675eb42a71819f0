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
  static constexpr std::string_view kName = "dense";

  std::int64_t d_hidden = 0;
  Activation activation = Activation::silu;

  std::int64_t width() const { return d_hidden; }
  bool operator==(const PerceptronConfig&) const = default;
};

template <ConfigOf<PerceptronConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"d_hidden", "elements of a layer's output, in each direction", "`d_model`"}, c.d_hidden);
  visit(Field{"activation", "of a dense layer"}, c.activation);
}

constexpr const SiteTable& site_table(const PerceptronConfig&) { return kFfnSiteTable; }
void check(std::string_view where, const PerceptronConfig& c, const LayerPlace& place);
void list_params(ParamList& list, const PerceptronConfig& c, PerceptronParams& w, const LayerPlace& place);
/// `[T, d_hidden]` from x `[T, in]`.
Tensor forward(Pass& p, BlockSite at, const PerceptronConfig& c, const PerceptronParams& w, const LayerContext& context,
               const Tensor& x);

}  // namespace vitrine
