// Latent attention (MLA): all heads read one row for each token, a latent of its keys and values and a rotated key.
//
//                        x [T, d]
//              ┌────────────┴────────────┐
//            wq_a                      wkv_a                      + bias
//            norm                 ┌──────┴──────┐
//            wq_b                norm          rope               wq instead of wq_a, norm and wq_b, if there is no
//     ┌───────┴──────┐         c [T,rank]    r [T,rot]            latent of queries
//   q_n [T,H,nope]  rope          │             │
//     │           q_r [T,H,rot]   └── [c ; r] ──┘  ◀──▶ KV cache
//     │              │                 │
//   K_hᵀ q_n         │                 │                          wkv_b: for each head K_h [nope, rank], V_h [dv, rank]
//     └── [· ; q_r] ─┴──── attend ─────┘                          one K/V head, whose value is c
//                     Σ_s p_s · c_s  [T, H, rank]
//                          V_h
//                      z [T, H, dv]
//                          wo                                     + bias
//                      out [T, d]
//
// The score (K_hᵀ q_n) · c + q_r · r is one dot product over the row [c ; r], c first. Keys and values by head are
// never formed, neither for prompts nor in training, so the bits of a token do not depend on how its text is divided
// into passes. A pair of a query and a key costs 2 · rank + rot multiply-adds for each head, instead of nope + rot +
// dv. Sources: DeepSeek-AI 2024 (DeepSeek-V2, section 2.1); transformers, models/deepseek_v3.
#pragma once

#include "model/mixers/latent_attention/sites.h"
#include "model/mixers/mixer.h"
#include "model/param_list.h"
#include "ops/attend.h"
#include "ops/by_head.h"
#include "ops/query_scale.h"
#include "ops/rope.h"

namespace vitrine {

struct LatentAttentionParams {
  LinearParams wq;          ///< `[H · (nope + rot), d]`, without a latent of queries.
  LinearParams wq_a, wq_b;  ///< `[rank_q, d]`, `[H · (nope + rot), rank_q]`, with one.
  NormParams q_norm;
  LinearParams wkv_a;  ///< `[rank + rot, d]`
  NormParams kv_norm;
  LinearParams wkv_b;       ///< `[H · (nope + dv), rank]`: for each head in turn K_h, then V_h. Without bias.
  LinearParams wk_b, wv_b;  ///< `[H · rank, nope]`, `[H · dv, rank]`: K_hᵀ and V_h of each head, if they are apart.
  LinearParams wo;
};

/// As attention, it has one K/V head, whose head_dim is rank + rope.dim.
struct LatentAttentionConfig : AttendConfig {
  using Params = LatentAttentionParams;
  static constexpr std::string_view kName = "latent_attention";

  std::int64_t rank = 0;                 ///< Elements of the latent of keys and values.
  std::optional<std::int64_t> q_rank{};  ///< Of that of queries; absent: there is none.
  std::int64_t nope_dim = 0;             ///< Elements of a head's query and key that are not rotated.
  std::int64_t head_value_dim = 0;       ///< Elements of a head's value; value_dim is that of what attention sums.
  RopeConfig rope{};                     ///< Of rope.dim more elements of a query, and of the one rotated key.
  bool positions = true;                 ///< Else the rope.dim elements are not rotated.
  bool rope_pairs = false;               ///< The pairs of RoPE are neighbours in the weights, and halves after it.
  std::optional<QueryScaleConfig> query_scale{};
  NormConfig latent_norm{};
  bool down_bias = false;   ///< Of wq_a and wkv_a.
  bool out_bias = false;    ///< Of wo.
  bool keys_apart = false;  ///< wk_b and wv_b instead of wkv_b.

  std::int64_t query_dim() const { return nope_dim + rope.dim; }
  /// The rows of wkv_b, or of wk_b and wv_b, that belong to a head. `of_queries`: to multiply queries by K_hᵀ.
  HeadRows key_rows(bool of_queries) const;
  HeadRows value_rows() const;

  bool operator==(const LatentAttentionConfig&) const = default;
};

template <ConfigOf<LatentAttentionConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"n_heads", "heads of queries", Field::kRequired}, c.n_heads);
  visit(Field{"score_scale", "factor of q · k", "1 / √(nope_dim + rope_dim)"}, c.score_scale);
  visit(Field{"kv_rank", "elements of the latent of keys and values; with this key attention is latent attention",
              "none"},
        c.rank);
  visit(Field{"q_rank", "elements of the latent of queries"}, c.q_rank);
  visit(Field{"nope_dim", "elements of a head's query and key that are not rotated", "required with `kv_rank`"},
        c.nope_dim);
  visit(Field{"value_dim", "elements of a head's value", "`nope_dim`"}, c.head_value_dim);
  visit(Field{"rope", "rotary position embedding"}, c.rope);
  visit(Field{"latent_positions", "false: the elements that RoPE would rotate stay as they are", {}, false},
        c.positions);
  visit(Field{"rope_pairs", "the pairs of RoPE are neighbours in the weights, and halves after it"}, c.rope_pairs);
  visit(Field{"query_scale", "a factor of the queries that grows with the position"}, c.query_scale);
  visit(Field{"latent_norm", "the norm of the latents"}, c.latent_norm);
  visit(Field{"down_bias", "biases of the projections to the latents"}, c.down_bias);
  visit(Field{"out_bias", "bias of the output projection"}, c.out_bias);
  visit(Field{"keys_apart", "keys and values have weights of their own, as in GGUF", {}, false}, c.keys_apart);
}

/// Sets what follows from the other fields: n_kv_heads, head_dim and value_dim.
inline void set_row(LatentAttentionConfig& c) {
  c.n_kv_heads = 1;
  c.head_dim = c.rank + c.rope.dim;
  c.value_dim = c.rank;
}

constexpr SublayerNames names_of(const LatentAttentionConfig&) {
  return {"attn",          "attention", AttentionSite::attn_in,   AttentionSite::attn_out, norms::ln1,
          norms::ln1_post, 1,           AttentionSite::scores_raw};
}
inline std::optional<HeadOutputs> head_outputs(const LatentAttentionConfig& c, const LatentAttentionParams& w) {
  return HeadOutputs{w.wo, c.n_heads, AttentionSite::z, AttentionSite::attn_proj};
}
constexpr const SiteTable& site_table(const LatentAttentionConfig&) { return kLatentSiteTable; }

void check(std::string_view where, const LatentAttentionConfig& c);
void list_params(ParamList& list, const std::string& at, const LatentAttentionConfig& c, LatentAttentionParams& w,
                 Widths d);
CacheLayerConfig cache_layer(const LatentAttentionConfig& c);
inline void tap_input(Pass&, BlockSite, const LatentAttentionConfig&, SublayerInput&) {}
/// `[T, d]`: the sublayer's output, before the post-norm. It has no data if the pass needs only what the cache keeps.
Tensor forward(Pass& p, BlockSite at, const LatentAttentionConfig& c, const LatentAttentionParams& w,
               const SublayerInput& in);
std::optional<double> gguf_word(const LatentAttentionConfig& c, std::string_view word);
/// Every rank computes the latents, for its part of the heads.
void divide(WeightDivider& divider, LatentAttentionConfig& c, LatentAttentionParams& w);

}  // namespace vitrine
