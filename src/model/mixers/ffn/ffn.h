// The feed-forward sublayer (MLP).
//
//   gated   out = (act(x · w_gate) ⊙ (x · w_up)) · w_down       (Shazeer 2020)
//   plain   out = act(x · w_up) · w_down                         (Vaswani et al. 2017)
//
// The activation may be xIELU, whose parameters belong to the FFN (ops/xielu.h). A gated unit may be clamped
// (ops/clamped_swiglu.h), and the gate may be made sparse (ops/gaussian_topk.h).
#pragma once

#include "model/mixers/ffn/sites.h"
#include "model/mixers/mixer.h"
#include "model/param_list.h"
#include "ops/clamped_swiglu.h"
#include "ops/elementwise.h"
#include "ops/xielu.h"

namespace vitrine {

struct FfnParams {
  LinearParams w_gate, w_up, w_down;  ///< w_gate only if the FFN is gated.
  XieluParams xielu;                  ///< If the activation is xIELU.
};

struct DenseConfig {
  using Params = FfnParams;
  static constexpr std::string_view kName = "mlp";

  std::int64_t d_ff = 0;
  Activation activation = Activation::silu;
  bool gated = true;  ///< act(x·w_gate) ⊙ x·w_up, else act(x·w_up).
  bool bias = false;
  bool down_bias = false;                  ///< A bias of w_down, where the others have none.
  bool xielu = false;                      ///< In place of `activation`; not gated.
  std::optional<ClampedSwiglu> clamped{};  ///< In place of act(x·w_gate) ⊙ x·w_up; gated.
  /// The gate becomes what it has above its mean plus so many standard deviations, else 0 (ops/gaussian_topk.h).
  std::optional<float> gate_cutoff{};
  float gate_scale = 1.0f;  ///< Factor of the gate before the activation.
  float out_scale = 1.0f;   ///< Factor of the output.

  bool operator==(const DenseConfig&) const = default;
};

template <ConfigOf<DenseConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"d_ff", "inner elements of the FFN; with experts, of one", Field::kRequired}, c.d_ff);
  visit(Field{"xielu", "the activation is xIELU, which has parameters"}, c.xielu);
  if (!c.xielu && !c.clamped) visit(Field{"activation", "of the FFN"}, c.activation);
  visit(Field{"gated", "act(x · w_gate) ⊙ (x · w_up), else act(x · w_up)"}, c.gated);
  visit(Field{"ffn_bias", "biases of its projections"}, c.bias);
  if (!c.bias) visit(Field{"down_bias", "a bias of w_down alone", {}, false}, c.down_bias);
  visit(Field{"clamped_swiglu", "(u + 1) · g · sigmoid(alpha · g) of clamped halves"}, c.clamped);
  if (c.gated) visit(Field{"gate_scale", "factor of the gate before the activation", {}, false}, c.gate_scale);
  visit(Field{"ffn_out_scale", "factor of the FFN's output", {}, false}, c.out_scale);
  visit(Field{"gate_cutoff", "keeps of the gate what is so many standard deviations above its mean"}, c.gate_cutoff);
}

/// The sites of an FFN: before the activation (gated: the gate), the up projection of a gated one, after the
/// activation, and the output; and what adapters add to the three projections.
struct FfnSites {
  SiteId pre, up, post, out;
  SiteId lora_gate, lora_up, lora_down;
};

/// `[T, d]` from x `[T, d]`: the sublayer's output, before the post-norm.
Tensor ffn(Pass& p, const FfnSites& at, const DenseConfig& c, const FfnParams& w, const Tensor& x);

constexpr const SiteTable& site_table(const DenseConfig&) { return kFfnSiteTable; }
constexpr SublayerNames names_of(const DenseConfig&) {
  return {"mlp", "FFN", FfnSite::mlp_in, FfnSite::mlp_out, norms::ln2, norms::ln2_post, 2};
}
void check(std::string_view where, const DenseConfig& c);
void list_params(ParamList& list, const std::string& at, const DenseConfig& c, FfnParams& w, Widths d);
inline CacheLayerConfig cache_layer(const DenseConfig&) { return {}; }
void tap_input(Pass& p, BlockSite at, const DenseConfig& c, SublayerInput& in);
Tensor forward(Pass& p, BlockSite at, const DenseConfig& c, const FfnParams& w, const SublayerInput& in);
std::optional<double> gguf_word(const DenseConfig& c, std::string_view word);
void divide(WeightDivider& divider, DenseConfig& c, FfnParams& w);

}  // namespace vitrine
