// A gated delta net: attention whose memory is a matrix for each head, which every token corrects.
//
//                          x [T, d]
//      ┌────────────────┬────┴─────┬───────────┐
//   w_qkv               w_b       w_a         w_z
//   conv, act         sigmoid   softplus       │
//   q, k, v              β     log decay       │        q, k of unit length; a key head serves several value heads
//      └──────────── scan ─────────┘           │        S ← decay · S;  S ← S + k (β (v − Sᵀ k))ᵀ;  o = Sᵀ q
//                     norm of each head        │
//                      ⊙ act(z) ───────────────┘
//                       wo
//                    out [T, d]
//
// KDA has a decay for each row of S, and matrices of low rank to it and to the gate. Sources: Yang et al. 2024 (Gated
// DeltaNet); Kimi Team 2025 (KDA); transformers, models/qwen3_next, qwen3_5, olmo_hybrid, kimi_linear.
#pragma once

#include "model/mixers/delta_net/sites.h"
#include "model/mixers/mixer.h"
#include "model/param_list.h"
#include "ops/elementwise.h"
#include "ops/short_convolution.h"
#include "ops/state_scan.h"

namespace vitrine {

struct DeltaNetParams {
  LinearParams w_qkv, w_qkvz, w_ba;  ///< By the form of the projections (DeltaNetConfig::Projections).
  LinearParams wq, wk, wv, w_z, w_a, w_b;
  LinearParams w_a_down, w_z_down;  ///< Before w_a and w_z, if these are of low rank.
  std::array<ConvolutionParams, 3> conv;
  Param a_log;    ///< `[H]`
  Param dt_bias;  ///< `[H]`, or `[H · dk]`
  NormParams norm;
  LinearParams wo;
};

struct DeltaNetConfig {
  using Params = DeltaNetParams;
  static constexpr std::string_view kName = "delta_net";

  /// joined: w_qkv, w_z, w_a, w_b. by_key_head: w_qkvz and w_ba, whose rows are those of one key head after the other:
  /// q, k, then v and z (b and a) of its value heads. apart: wq, wk, wv, w_z, w_a, w_b.
  enum class Projections : std::uint8_t { joined, by_key_head, apart };

  std::int64_t n_heads = 0;      ///< Of values, and of states.
  std::int64_t n_key_heads = 0;  ///< Of queries and keys; each serves n_heads / n_key_heads heads.
  std::int64_t key_dim = 0, value_dim = 0;
  std::int64_t width = 0;  ///< Tokens that a sum of the convolution reads.
  Projections projections = Projections::joined;
  /// Channels of convolutions with weights of their own, one after another; all 0: there is one.
  std::array<std::int64_t, 3> conv_parts{};
  bool decay_by_channel = false;             ///< A decay for each row of a state (KDA).
  std::optional<std::int64_t> gate_rank{};   ///< Of w_a and w_z; absent: they are whole matrices.
  Activation activation = Activation::silu;  ///< After the convolution.
  bool sigmoid_gate = false;                 ///< Else SiLU.
  float beta_scale = 1.0f;                   ///< 2 lets a decay be negative along a key.
  bool rates_are_logs = true;                ///< The file stores log(−A), not A.
  bool heads_alternate = false;  ///< Head h has key h modulo n_key_heads; else a key's heads are consecutive.
  NormConfig norm{};

  std::int64_t keys() const { return n_key_heads * key_dim; }
  std::int64_t values() const { return n_heads * value_dim; }
  std::int64_t channels() const { return 2 * keys() + values(); }
  std::int64_t n_decays() const { return decay_by_channel ? n_heads * key_dim : n_heads; }
  StateShape state() const {
    const StateDecay decay = decay_by_channel ? StateDecay::row : StateDecay::head;
    return {n_heads, n_key_heads, key_dim, value_dim, decay, heads_alternate};
  }
  bool operator==(const DeltaNetConfig&) const = default;
};

constexpr std::array<std::string_view, 3> words(DeltaNetConfig::Projections) {
  return {"joined", "by_key_head", "apart"};
}
template <ConfigOf<DeltaNetConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"n_state_heads", "heads of a state, and of values", "`n_heads`"}, c.n_heads);
  visit(Field{"n_state_groups", "heads of queries and keys of a delta net; groups of B and C of Mamba-2",
              "`n_state_heads`, or 1"},
        c.n_key_heads);
  visit(Field{"state_key_dim", "elements of a head's key, the rows of its state", "`head_dim`"}, c.key_dim);
  visit(Field{"state_value_dim", "elements of a head's value, the columns of its state", "`head_dim`"}, c.value_dim);
  visit(Field{"d_conv", "tokens that a sum of the short convolution reads, its own included", "4"}, c.width);
  visit(Field{"state_projections", "how the projections are stored", {}, false}, c.projections);
  visit(Field{"decay_by_channel", "a decay for each row of a state (KDA)", {}, false}, c.decay_by_channel);
  visit(Field{"gate_rank", "of the maps to the decay and to the gate", {}, false}, c.gate_rank);
  visit(Field{"mixer_activation", "after the short convolution", {}, false}, c.activation);
  visit(Field{"sigmoid_gate", "the gate of the output is a sigmoid, else SiLU", {}, false}, c.sigmoid_gate);
  visit(Field{"beta_scale", "factor of beta: 2 lets a state turn its sign along a key"}, c.beta_scale);
  if (c.heads_alternate) {
    visit(Field{"heads_alternate", "the heads of a key are as far apart as there are keys", {}, false},
          c.heads_alternate);
  }
  visit(Field{"state_norm", "of the output of each head, before the gate", {}, false}, c.norm);
}

constexpr const SiteTable& site_table(const DeltaNetConfig&) { return kDeltaSiteTable; }
constexpr SublayerNames names_of(const DeltaNetConfig&) {
  return {"linear_attn", "a delta net", DeltaSite::mixer_in, DeltaSite::mixer_out, norms::ln1, norms::ln1_post};
}
inline std::optional<HeadOutputs> head_outputs(const DeltaNetConfig& c, const DeltaNetParams& w) {
  return HeadOutputs{w.wo, c.n_heads, DeltaSite::z, DeltaSite::out};
}
inline std::optional<RecurrentHeads> recurrent_heads(const DeltaNetConfig& c, const DeltaNetParams&) {
  return RecurrentHeads{c.state(), DeltaSite::effective_attention, DeltaSite::carry, DeltaSite::log_decay};
}
void check(std::string_view where, const DeltaNetConfig& c);
void list_params(ParamList& list, const std::string& at, const DeltaNetConfig& c, DeltaNetParams& w, Widths d);
inline CacheLayerConfig cache_layer(const DeltaNetConfig& c) {
  return std::vector<StateConfig>{window_config(c.channels(), c.width), c.state().cached()};
}
inline void tap_input(Pass& p, BlockSite at, const DeltaNetConfig&, SublayerInput& in) {
  tap_stream(p, at(DeltaSite::mixer_in), in);
}
Tensor forward(Pass& p, BlockSite at, const DeltaNetConfig& c, const DeltaNetParams& w, const SublayerInput& in);
std::optional<double> gguf_word(const DeltaNetConfig& c, std::string_view word);
/// Refuses.
void divide(WeightDivider& divider, DeltaNetConfig& c, DeltaNetParams& w);

}  // namespace vitrine
