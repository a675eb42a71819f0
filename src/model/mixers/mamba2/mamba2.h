// Mamba-2: a state space whose state is a matrix for each head, and decays at one rate.
//
//   z, xBC, dt = w_in · n;  x, B, C = act(conv(xBC))   n [T, d]; z, x [T, H · P]; B, C [T, G · N]; dt [T, H]
//   dt ← clamp(softplus(dt + dt_bias))                 a group of B and C serves H / G heads
//   S ← exp(dt · A) · S + dt · x Bᵀ                    y = S C + D · x
//   out = w_out · norm(y ⊙ silu(z))                    by group; or norm(y) ⊙ silu(z), or y ⊙ silu(z)
//
// Sources: Dao & Gu 2024; transformers, models/mamba2, bamba, granitemoehybrid, nemotron_h, falcon_h1.
#pragma once

#include <array>

#include "model/mixers/mamba/sites.h"
#include "model/mixers/mixer.h"
#include "model/param_list.h"
#include "ops/short_convolution.h"
#include "ops/state_scan.h"

namespace vitrine {

struct Mamba2Params {
  LinearParams w_in;  ///< `[2 · H · P + 2 · G · N + H, d]`: z, x, B, C, dt.
  ConvolutionParams conv;
  Param a_log;    ///< `[H]`
  Param skip;     ///< D `[H]`
  Param dt_bias;  ///< `[H]`
  NormParams norm;
  LinearParams w_out;
};

/// Factors of what w_in reads, and of what it computes.
struct Mamba2Factors {
  float input = 1;
  float z = 1, x = 1, b = 1, c = 1, dt = 1;

  bool operator==(const Mamba2Factors&) const = default;
};

struct Mamba2Config {
  using Params = Mamba2Params;
  static constexpr std::string_view kName = "mamba2";

  std::int64_t n_heads = 0;
  std::int64_t head_dim = 0;                 ///< P
  std::int64_t d_state = 0;                  ///< N
  std::int64_t n_groups = 1;                 ///< Of B and C, and of the norm.
  std::int64_t width = 0;                    ///< Tokens that a sum of the convolution reads.
  Activation activation = Activation::silu;  ///< After the convolution; the gate's is always SiLU.
  bool conv_bias = true;
  bool in_bias = false, out_bias = false;  ///< Of w_in and w_out.
  StepLimits limits{};
  std::optional<NormConfig> norm{};
  bool norm_before_gate = false;
  Mamba2Factors factors{};
  bool rates_are_logs = true;  ///< The file stores log(−A), not A.

  std::int64_t inner() const { return n_heads * head_dim; }
  std::int64_t channels() const { return inner() + 2 * n_groups * d_state; }
  StateShape state() const { return {n_heads, n_groups, d_state, head_dim, StateDecay::head}; }
  bool operator==(const Mamba2Config&) const = default;
};

template <ConfigOf<Mamba2Factors> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"input", "of what is projected"}, c.input);
  visit(Field{"z", "of the gate"}, c.z);
  visit(Field{"x", "of the values"}, c.x);
  visit(Field{"b", "of B"}, c.b);
  visit(Field{"c", "of C"}, c.c);
  visit(Field{"dt", "of the steps"}, c.dt);
}
template <ConfigOf<StepLimits> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"least", "the smallest step"}, c.least);
  visit(Field{"most", "the largest step"}, c.most);
}
template <ConfigOf<Mamba2Config> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"n_state_heads", "heads of a state, and of values", "`n_heads`"}, c.n_heads);
  visit(Field{"state_value_dim", "elements of a head's value, the columns of its state", "`head_dim`"}, c.head_dim);
  visit(Field{"d_state", "numbers that a channel of Mamba, or an element of a head of Mamba-2, remembers",
              "16; 128 of Mamba-2"},
        c.d_state);
  visit(Field{"n_state_groups", "heads of queries and keys of a delta net; groups of B and C of Mamba-2",
              "`n_state_heads`, or 1"},
        c.n_groups);
  visit(Field{"d_conv", "tokens that a sum of the short convolution reads, its own included", "4"}, c.width);
  visit(Field{"mixer_activation", "after the short convolution", {}, false}, c.activation);
  visit(Field{"conv_bias", "a bias of the convolution"}, c.conv_bias);
  visit(Field{"mixer_bias", "biases of the projections around a mixer with a state"}, c.in_bias);
  visit(Field{"mixer_out_bias", "a bias of the output projection of Mamba-2", "`mixer_bias`", false}, c.out_bias);
  visit(Field{"step_limits", "of the steps of Mamba-2", {}, false}, c.limits);
  visit(Field{"state_norm", "of the output, with the gate", {}, false}, c.norm);
  if (c.norm) visit(Field{"norm_before_gate", "the norm comes before the gate", {}, false}, c.norm_before_gate);
  visit(Field{"projection_factors", "of the parts of what is projected", {}, false}, c.factors);
}

constexpr const SiteTable& site_table(const Mamba2Config&) { return kMambaSiteTable; }
constexpr SublayerNames names_of(const Mamba2Config&) {
  return {"mixer", "Mamba-2", MambaSite::mixer_in, MambaSite::mixer_out, norms::ln1, norms::ln1_post};
}
inline std::optional<HeadOutputs> head_outputs(const Mamba2Config& c, const Mamba2Params& w) {
  return HeadOutputs{w.w_out, c.n_heads, MambaSite::norm_out, MambaSite::out};
}
inline std::optional<RecurrentHeads> recurrent_heads(const Mamba2Config& c, const Mamba2Params& w) {
  return RecurrentHeads{c.state(), MambaSite::effective_attention, MambaSite::carry, MambaSite::ssm_dt,
                        Rates{w.a_log, c.rates_are_logs}};
}
void check(std::string_view where, const Mamba2Config& c);
void list_params(ParamList& list, const std::string& at, const Mamba2Config& c, Mamba2Params& w, Widths d);
inline CacheLayerConfig cache_layer(const Mamba2Config& c) {
  return std::vector<StateConfig>{window_config(c.channels(), c.width), c.state().cached(true)};
}
inline void tap_input(Pass& p, BlockSite at, const Mamba2Config&, SublayerInput& in) {
  tap_stream(p, at(MambaSite::mixer_in), in);
}
Tensor forward(Pass& p, BlockSite at, const Mamba2Config& c, const Mamba2Params& w, const SublayerInput& in);
std::optional<double> gguf_word(const Mamba2Config& c, std::string_view word);
/// Refuses.
void divide(WeightDivider& divider, Mamba2Config& c, Mamba2Params& w);

}  // namespace vitrine
