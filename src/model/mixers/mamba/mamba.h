// Mamba: a selective state space. Each channel c has a state of N numbers, which decays at its own rates.
//
//   x, z = w_in · n                                       n [T, d], x and z [T, C]
//   x ← act(conv(x))
//   r, B, C = w_x · x                                     [T, rank], [T, N], [T, N]; each may have a norm
//   dt = softplus(w_dt · r + b)                           [T, C]
//   S[c] ← exp(dt[c] · A[c]) ⊙ S[c] + dt[c] · x[c] · B    y[c] = S[c] · C + D[c] · x[c]
//   out = w_out · (y ⊙ silu(z))
//
// Sources: Gu & Dao 2023; transformers, models/mamba, falcon_mamba, jamba.
#pragma once

#include "model/mixers/mamba/sites.h"
#include "model/mixers/mixer.h"
#include "model/param_list.h"
#include "ops/short_convolution.h"
#include "ops/state_scan.h"

namespace vitrine {

struct MambaParams {
  LinearParams w_in;  ///< `[2 · C, d]`: x, z.
  ConvolutionParams conv;
  LinearParams w_x;   ///< `[rank + 2 · N, C]`
  LinearParams w_dt;  ///< `[C, rank]`, with a bias.
  NormParams dt_norm, b_norm, c_norm;
  Param a_log;  ///< `[C, N]`
  Param skip;   ///< D `[C]`
  LinearParams w_out;
};

struct MambaConfig {
  using Params = MambaParams;
  static constexpr std::string_view kName = "mamba";

  std::int64_t channels = 0;  ///< C
  std::int64_t d_state = 0;   ///< N
  std::int64_t dt_rank = 0;
  std::int64_t width = 0;                    ///< Tokens that a sum of the convolution reads.
  Activation activation = Activation::silu;  ///< After the convolution; the gate's is always SiLU.
  bool conv_bias = true;
  bool bias = false;                 ///< Of w_in and w_out.
  std::optional<NormConfig> norm{};  ///< Of r, B and C.
  bool rates_are_logs = true;        ///< The file stores log(−A), not A.

  StateShape state() const { return {1, 1, d_state, channels, StateDecay::element}; }
  bool operator==(const MambaConfig&) const = default;
};

template <ConfigOf<MambaConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"d_inner", "channels of Mamba", "`expand` · `d_model`"}, c.channels);
  visit(Field{"d_state", "numbers that a channel of Mamba, or an element of a head of Mamba-2, remembers",
              "16; 128 of Mamba-2"},
        c.d_state);
  visit(Field{"dt_rank", "of the map to the steps of Mamba", "`d_model` / 16"}, c.dt_rank);
  visit(Field{"d_conv", "tokens that a sum of the short convolution reads, its own included", "4"}, c.width);
  visit(Field{"mixer_activation", "after the short convolution", {}, false}, c.activation);
  visit(Field{"conv_bias", "a bias of the convolution"}, c.conv_bias);
  visit(Field{"mixer_bias", "biases of the projections around a mixer with a state"}, c.bias);
  visit(Field{"step_norm", "of the steps, B and C of Mamba", {}, false}, c.norm);
}

constexpr const SiteTable& site_table(const MambaConfig&) { return kMambaSiteTable; }
constexpr SublayerNames names_of(const MambaConfig&) {
  return {"mixer", "Mamba", MambaSite::mixer_in, MambaSite::mixer_out, norms::ln1, norms::ln1_post};
}
inline std::optional<RecurrentHeads> recurrent_heads(const MambaConfig& c, const MambaParams& w) {
  return RecurrentHeads{c.state(), MambaSite::effective_attention, MambaSite::carry, MambaSite::ssm_dt,
                        Rates{w.a_log, c.rates_are_logs}};
}
void check(std::string_view where, const MambaConfig& c);
void list_params(ParamList& list, const std::string& at, const MambaConfig& c, MambaParams& w, Widths d);
inline CacheLayerConfig cache_layer(const MambaConfig& c) {
  return std::vector<StateConfig>{window_config(c.channels, c.width), c.state().cached(true)};
}
inline void tap_input(Pass& p, BlockSite at, const MambaConfig&, SublayerInput& in) {
  tap_stream(p, at(MambaSite::mixer_in), in);
}
Tensor forward(Pass& p, BlockSite at, const MambaConfig& c, const MambaParams& w, const SublayerInput& in);
std::optional<double> gguf_word(const MambaConfig& c, std::string_view word);
/// Refuses.
void divide(WeightDivider& divider, MambaConfig& c, MambaParams& w);

}  // namespace vitrine
