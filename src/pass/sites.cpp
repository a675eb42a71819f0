#include "pass/sites.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

namespace vitrine {
namespace {

using enum Dim;

constexpr bool kBlock = true, kTop = false, kOnDemand = true, kDefault = false;

constexpr auto kSites = std::to_array<SiteInfo>({
    {Site::tokens, kTop, kDefault, "hook_tokens", {T}, "token ids"},
    {Site::embed, kTop, kDefault, "hook_embed", {T, d}, "token embeddings, times the embedding scale"},
    {Site::type_embed, kTop, kDefault, "hook_token_type_embed", {T, d}, "embeddings of the tokens' types"},
    {Site::pos_embed, kTop, kDefault, "hook_pos_embed", {T, d}, "learned position embeddings"},
    {Site::embed_scale, kTop, kDefault, "ln_embed.hook_scale", {T, one}, "the divisor of the norm of the embedding"},
    {Site::embed_normalized, kTop, kDefault, "ln_embed.hook_normalized", {T, d}, "normalized, before the weight"},
    {Site::embed_out, kTop, kDefault, "ln_embed.hook_out", {T, d}, "after the weight"},
    {Site::resid_pre, kBlock, kDefault, "hook_resid_pre", {T, d}, "the residual stream before the block"},
    {Site::attn_in,
     kBlock,
     kOnDemand,
     "hook_attn_in",
     {T, H, d},
     "a copy of resid_pre per query head; each K/V head reads that of its first query head"},
    {Site::q_input, kBlock, kOnDemand, "hook_q_input", {T, H, d}, "the input of each query head, before ln1"},
    {Site::k_input, kBlock, kOnDemand, "hook_k_input", {T, K, d}, "the input of each key head, before ln1"},
    {Site::v_input, kBlock, kOnDemand, "hook_v_input", {T, K, d}, "the input of each value head, before ln1"},
    {Site::cross_attn_in, kBlock, kOnDemand, "hook_cross_attn_in", {T, d}, "the input of cross-attention, before ln2"},
    {Site::ln1_scale, kBlock, kDefault, "ln1.hook_scale", {T, one}, "the divisor of the norm before attention"},
    {Site::ln1_normalized, kBlock, kDefault, "ln1.hook_normalized", {T, d}, "normalized, before the weight"},
    {Site::ln1_out, kBlock, kDefault, "ln1.hook_out", {T, d}, "after the weight: the input of attention"},
    {Site::lora_q, kBlock, kDefault, "attn.hook_lora_q", {T, H, dh}, "what adapters add to the queries"},
    {Site::q, kBlock, kDefault, "attn.hook_q", {T, H, dh}, "queries, with bias, before their norm and RoPE"},
    {Site::lora_k, kBlock, kDefault, "attn.hook_lora_k", {T, K, dh}, "what adapters add to the keys"},
    {Site::k, kBlock, kDefault, "attn.hook_k", {T, K, dh}, "keys of this pass, with bias, before their norm and RoPE"},
    {Site::lora_v, kBlock, kDefault, "attn.hook_lora_v", {T, K, dh}, "what adapters add to the values"},
    {Site::v, kBlock, kDefault, "attn.hook_v", {T, K, dh}, "values of this pass, with bias"},
    {Site::q_norm_scale, kBlock, kDefault, "attn.q_norm.hook_scale", {T, Nq, one}, "the divisor of the norm of q"},
    {Site::q_norm_normalized,
     kBlock,
     kDefault,
     "attn.q_norm.hook_normalized",
     {T, Nq, nq},
     "normalized, before the weight"},
    {Site::q_norm_out, kBlock, kDefault, "attn.q_norm.hook_out", {T, Nq, nq}, "after the weight, before RoPE"},
    {Site::k_norm_scale, kBlock, kDefault, "attn.k_norm.hook_scale", {T, Nk, one}, "the divisor of the norm of k"},
    {Site::k_norm_normalized,
     kBlock,
     kDefault,
     "attn.k_norm.hook_normalized",
     {T, Nk, nk},
     "normalized, before the weight"},
    {Site::k_norm_out, kBlock, kDefault, "attn.k_norm.hook_out", {T, Nk, nk}, "after the weight, before RoPE"},
    {Site::rot_q, kBlock, kDefault, "attn.hook_rot_q", {T, H, dh}, "queries after RoPE"},
    {Site::rot_k, kBlock, kDefault, "attn.hook_rot_k", {T, K, dh}, "keys after RoPE"},
    {Site::scores_raw,
     kBlock,
     kDefault,
     "attn.hook_scores_raw",
     {H, T, S},
     "q·k times the score scale, before relative bias, softcap and mask; −∞ for keys that have left the cache"},
    {Site::scores,
     kBlock,
     kDefault,
     "attn.hook_attn_scores",
     {H, T, S},
     "after bias, softcap and mask; −∞ where masked"},
    {Site::pattern, kBlock, kDefault, "attn.hook_pattern", {H, T, S}, "softmax of the scores over S"},
    {Site::z, kBlock, kDefault, "attn.hook_z", {T, H, dh}, "pattern × V for each head"},
    {Site::result, kBlock, kOnDemand, "attn.hook_result", {T, H, d}, "the output of wo for each head, without bias"},
    {Site::lora_out, kBlock, kDefault, "attn.hook_lora_out", {T, d}, "what adapters add to the output of wo"},
    {Site::attn_proj, kBlock, kDefault, "attn.hook_out", {T, d}, "after wo and its bias, before the post-norm"},
    {Site::ln1_post_scale,
     kBlock,
     kDefault,
     "ln1_post.hook_scale",
     {T, one},
     "the divisor of the norm after attention"},
    {Site::ln1_post_normalized, kBlock, kDefault, "ln1_post.hook_normalized", {T, d}, "normalized, before the weight"},
    {Site::ln1_post_out, kBlock, kDefault, "ln1_post.hook_out", {T, d}, "after the weight"},
    {Site::attn_out, kBlock, kDefault, "hook_attn_out", {T, d}, "the output of attention, added to the stream"},
    {Site::resid_mid,
     kBlock,
     kDefault,
     "hook_resid_mid",
     {T, d},
     "the stream between attention and MLP; absent from parallel blocks"},
    {Site::mid_scale, kBlock, kDefault, "ln1.hook_scale", {T, one}, "the divisor of a norm of resid_mid"},
    {Site::mid_normalized, kBlock, kDefault, "ln1.hook_normalized", {T, d}, "normalized, before the weight"},
    {Site::mid_out, kBlock, kDefault, "ln1.hook_out", {T, d}, "after the weight"},
    {Site::normalized_resid_mid,
     kBlock,
     kDefault,
     "hook_normalized_resid_mid",
     {T, d},
     "the stream between attention and MLP where the sum is normalized"},
    {Site::cell_i, kBlock, kDefault, "cell.hook_i", {T, d_h}, "an LSTM's input gate"},
    {Site::cell_f, kBlock, kDefault, "cell.hook_f", {T, d_h}, "an LSTM's forget gate"},
    {Site::cell_g, kBlock, kDefault, "cell.hook_g", {T, d_h}, "an LSTM's candidate for c"},
    {Site::cell_o, kBlock, kDefault, "cell.hook_o", {T, d_h}, "an LSTM's output gate"},
    {Site::cell_r, kBlock, kDefault, "cell.hook_r", {T, d_h}, "a GRU's reset gate"},
    {Site::cell_z, kBlock, kDefault, "cell.hook_z", {T, d_h}, "a GRU's update gate"},
    {Site::cell_n, kBlock, kDefault, "cell.hook_n", {T, d_h}, "a GRU's candidate for h"},
    {Site::cell_c, kBlock, kDefault, "cell.hook_c", {T, d_h}, "an LSTM's c after each token"},
    {Site::cell_h, kBlock, kDefault, "cell.hook_h", {T, d_h}, "a cell's h after each token"},
    {Site::reverse_i,
     kBlock,
     kDefault,
     "cell_reverse.hook_i",
     {T, d_h},
     "an LSTM's input gate, in the reverse direction"},
    {Site::reverse_f,
     kBlock,
     kDefault,
     "cell_reverse.hook_f",
     {T, d_h},
     "an LSTM's forget gate, in the reverse direction"},
    {Site::reverse_g,
     kBlock,
     kDefault,
     "cell_reverse.hook_g",
     {T, d_h},
     "an LSTM's candidate for c, in the reverse direction"},
    {Site::reverse_o,
     kBlock,
     kDefault,
     "cell_reverse.hook_o",
     {T, d_h},
     "an LSTM's output gate, in the reverse direction"},
    {Site::reverse_r,
     kBlock,
     kDefault,
     "cell_reverse.hook_r",
     {T, d_h},
     "a GRU's reset gate, in the reverse direction"},
    {Site::reverse_z,
     kBlock,
     kDefault,
     "cell_reverse.hook_z",
     {T, d_h},
     "a GRU's update gate, in the reverse direction"},
    {Site::reverse_n,
     kBlock,
     kDefault,
     "cell_reverse.hook_n",
     {T, d_h},
     "a GRU's candidate for h, in the reverse direction"},
    {Site::reverse_c,
     kBlock,
     kDefault,
     "cell_reverse.hook_c",
     {T, d_h},
     "an LSTM's c after each token, in the reverse direction"},
    {Site::reverse_h,
     kBlock,
     kDefault,
     "cell_reverse.hook_h",
     {T, d_h},
     "a cell's h after each token, in the reverse direction"},
    {Site::mlp_in, kBlock, kOnDemand, "hook_mlp_in", {T, d}, "the input of the MLP, before ln2"},
    {Site::ln2_scale, kBlock, kDefault, "ln{m}.hook_scale", {T, one}, "the divisor of the norm before the MLP"},
    {Site::ln2_normalized, kBlock, kDefault, "ln{m}.hook_normalized", {T, d}, "normalized, before the weight"},
    {Site::ln2_out, kBlock, kDefault, "ln{m}.hook_out", {T, d}, "after the weight: the input of the MLP"},
    {Site::router_logits,
     kBlock,
     kDefault,
     "mlp.hook_router_logits",
     {T, E},
     "the router's score of each expert, before softmax"},
    {Site::expert_weights,
     kBlock,
     kDefault,
     "mlp.hook_expert_weights",
     {T, E},
     "softmax of the router logits, before top-k"},
    {Site::expert_indices,
     kBlock,
     kDefault,
     "mlp.hook_expert_indices",
     {T, k},
     "the chosen experts, highest weight first"},
    {Site::expert_tokens, kBlock, kDefault, "mlp.experts.{e}.hook_tokens", {n}, "the rows routed to the expert"},
    {Site::expert_lora_gate,
     kBlock,
     kDefault,
     "mlp.experts.{e}.hook_lora_gate",
     {n, d_fe},
     "what adapters add to the gate"},
    {Site::expert_gate,
     kBlock,
     kDefault,
     "mlp.experts.{e}.hook_gate",
     {n, d_fe},
     "the gate before the activation; gated experts only"},
    {Site::expert_lora_up,
     kBlock,
     kDefault,
     "mlp.experts.{e}.hook_lora_up",
     {n, d_fe},
     "what adapters add to the up projection"},
    {Site::expert_pre,
     kBlock,
     kDefault,
     "mlp.experts.{e}.hook_pre",
     {n, d_fe},
     "the up projection (not gated: before the activation)"},
    {Site::expert_post,
     kBlock,
     kDefault,
     "mlp.experts.{e}.hook_post",
     {n, d_fe},
     "after the activation (gated: times the up projection)"},
    {Site::expert_lora_down,
     kBlock,
     kDefault,
     "mlp.experts.{e}.hook_lora_down",
     {n, d},
     "what adapters add to the output"},
    {Site::expert_out,
     kBlock,
     kDefault,
     "mlp.experts.{e}.hook_out",
     {n, d},
     "the output of the expert, before it is multiplied by its weight"},
    {Site::lora_gate, kBlock, kDefault, "mlp.hook_lora_gate", {T, d_ff}, "what adapters add to the gate"},
    {Site::mlp_pre, kBlock, kDefault, "mlp.hook_pre", {T, d_ff}, "before the activation (gated: the gate)"},
    {Site::lora_up, kBlock, kDefault, "mlp.hook_lora_up", {T, d_ff}, "what adapters add to the up projection"},
    {Site::mlp_pre_linear, kBlock, kDefault, "mlp.hook_pre_linear", {T, d_ff}, "the up projection of a gated MLP"},
    {Site::mlp_post,
     kBlock,
     kDefault,
     "mlp.hook_post",
     {T, d_ff},
     "after the activation (gated: times the up projection)"},
    {Site::lora_down, kBlock, kDefault, "mlp.hook_lora_down", {T, d}, "what adapters add to the output of w_down"},
    {Site::mlp_proj, kBlock, kDefault, "mlp.hook_out", {T, d}, "after w_down and its bias, before the post-norm"},
    {Site::ln2_post_scale,
     kBlock,
     kDefault,
     "ln{m}_post.hook_scale",
     {T, one},
     "the divisor of the norm after the MLP"},
    {Site::ln2_post_normalized,
     kBlock,
     kDefault,
     "ln{m}_post.hook_normalized",
     {T, d},
     "normalized, before the weight"},
    {Site::ln2_post_out, kBlock, kDefault, "ln{m}_post.hook_out", {T, d}, "after the weight"},
    {Site::mlp_out, kBlock, kDefault, "hook_mlp_out", {T, d}, "the output of the MLP, added to the stream"},
    {Site::resid_post, kBlock, kDefault, "hook_resid_post", {T, d}, "the residual stream after the block"},
    {Site::post_scale, kBlock, kDefault, "ln{m}.hook_scale", {T, one}, "the divisor of a norm of resid_post"},
    {Site::post_normalized, kBlock, kDefault, "ln{m}.hook_normalized", {T, d}, "normalized, before the weight"},
    {Site::post_out, kBlock, kDefault, "ln{m}.hook_out", {T, d}, "after the weight"},
    {Site::normalized_resid_post,
     kBlock,
     kDefault,
     "hook_normalized_resid_post",
     {T, d},
     "the stream after the block where the sum is normalized"},
    {Site::final_scale, kTop, kDefault, "ln_final.hook_scale", {T, one}, "the divisor of the final norm"},
    {Site::final_normalized, kTop, kDefault, "ln_final.hook_normalized", {T, d}, "normalized, before the weight"},
    {Site::final_out, kTop, kDefault, "ln_final.hook_out", {T, d}, "after the weight"},
    {Site::pooler_out,
     kTop,
     kDefault,
     "pooler.hook_pooler_out",
     {one, d},
     "the vector of the whole text, from its first row"},
    {Site::nsp_out,
     kTop,
     kDefault,
     "nsp_head.hook_nsp_out",
     {one, two},
     "logits: the second part follows the first, or not"},
    {Site::head_pre, kTop, kDefault, "head.hook_pre", {T, d}, "the head's dense layer, before the activation"},
    {Site::head_post, kTop, kDefault, "head.hook_post", {T, d}, "after the activation"},
    {Site::head_scale, kTop, kDefault, "head.ln.hook_scale", {T, one}, "the divisor of the head's norm"},
    {Site::head_normalized, kTop, kDefault, "head.ln.hook_normalized", {T, d}, "normalized, before the weight"},
    {Site::head_out, kTop, kDefault, "head.ln.hook_out", {T, d}, "after the weight"},
    {Site::unembed_in, kTop, kDefault, "unembed.hook_in", {T, d}, "the input of the unembedding"},
    {Site::unembed_out, kTop, kDefault, "unembed.hook_out", {T, V}, "logits before scale and softcap"},
    {Site::logits, kTop, kDefault, "hook_logits", {T, V}, "logits after scale and softcap"},
    {Site::loss, kTop, kDefault, "hook_loss", {T_1}, "−log p of the next token, in nats"},
});

consteval bool in_enum_order() {
  for (std::size_t i = 0; i < kSites.size(); ++i) {
    if (kSites[i].site != static_cast<Site>(i)) return false;
  }
  return kSites.size() == static_cast<std::size_t>(Site::loss) + 1;
}
static_assert(in_enum_order());

/// The divisor, the normalized values and the output of each norm, in the order of Norm.
constexpr std::array<Site, 3> kNorms[] = {
    {Site::ln1_scale, Site::ln1_normalized, Site::ln1_out},
    {Site::q_norm_scale, Site::q_norm_normalized, Site::q_norm_out},
    {Site::k_norm_scale, Site::k_norm_normalized, Site::k_norm_out},
    {Site::ln1_post_scale, Site::ln1_post_normalized, Site::ln1_post_out},
    {Site::ln2_scale, Site::ln2_normalized, Site::ln2_out},
    {Site::ln2_post_scale, Site::ln2_post_normalized, Site::ln2_post_out},
    {Site::final_scale, Site::final_normalized, Site::final_out},
    {Site::embed_scale, Site::embed_normalized, Site::embed_out},
    {Site::mid_scale, Site::mid_normalized, Site::mid_out},
    {Site::post_scale, Site::post_normalized, Site::post_out},
    {Site::head_scale, Site::head_normalized, Site::head_out},
};

}  // namespace

std::span<const SiteInfo> all_sites() { return kSites; }

std::string_view name_of(Dim dim) {
  constexpr std::string_view kNames[] = {"T", "T-1", "S",  "n",  "1",  "2", "H", "K",    "dh",   "d",
                                         "V", "Nq",  "nq", "Nk", "nk", "E", "k", "d_fe", "d_ff", "d_h"};
  return kNames[static_cast<std::size_t>(dim)];
}

std::string to_string(const SiteShape& shape) {
  std::string text;
  for (const Dim dim : shape.dims()) text += (text.empty() ? "[" : ", ") + std::string(name_of(dim));
  return text + "]";
}

bool in_cross_attention(Site site) {
  return site >= Site::cross_attn_in && site <= Site::normalized_resid_mid && site != Site::rot_q &&
         site != Site::rot_k;
}

bool precedes(const SiteId& a, const SiteId& b) {
  // Within a layer cross-attention follows attention, and precedes the MLP.
  const auto part = [](const SiteId& id) { return id.cross ? 1 : id.site <= Site::normalized_resid_mid ? 0 : 2; };
  const auto place = [&](const SiteId& id) {
    const bool after_blocks = !info(id.site).in_block && id.site > Site::resid_post;
    return std::tuple(id.stack != Stack::encoder, after_blocks ? std::numeric_limits<int>::max() : id.layer, part(id),
                      id.site);
  };
  return place(a) < place(b);
}

namespace {

/// `cross_attn.hook_q` for `attn.hook_q`, `ln2.hook_scale` for `ln1.hook_scale`.
std::string name_in_cross_attention(std::string_view name) {
  const auto after = [&](std::string_view prefix) { return std::string(name.substr(prefix.size())); };
  if (name.starts_with("attn.")) return "cross_" + std::string(name);
  if (name.starts_with("ln1")) return "ln2" + after("ln1");
  if (name.starts_with("hook_attn_")) return "hook_cross_attn_" + after("hook_attn_");
  if (name.ends_with("resid_mid")) return std::string(name) + "_cross";
  return std::string(name);
}

}  // namespace

std::string name_of(const SiteId& id) {
  constexpr std::string_view kPrefixes[] = {"blocks.", "encoder.", "decoder."};
  const SiteInfo& site = info(id.site);
  const std::string_view prefix = kPrefixes[static_cast<std::size_t>(id.stack)];
  if (!site.in_block) return (id.stack == Stack::only ? "" : std::string(prefix)) + std::string(site.name);
  std::string name = std::string(prefix) + std::to_string(id.layer) + ".";
  name += id.cross ? name_in_cross_attention(site.name) : std::string(site.name);
  if (const std::size_t at = name.find("{m}"); at != std::string::npos) {
    return name.replace(at, 3, id.stack == Stack::decoder ? "3" : "2");
  }
  const std::size_t at = name.find("{e}");
  if (at == std::string::npos) return name;
  const std::string expert = id.expert == SiteId::kNoExpert ? "E"
                             : id.expert == SiteId::kShared ? "shared"
                                                            : std::to_string(id.expert);
  return name.substr(0, at) + expert + name.substr(at + 3);
}

NormSite BlockSite::operator()(Norm norm) const {
  const auto& [scale, normalized, out] = kNorms[static_cast<std::size_t>(norm)];
  return {(*this)(scale), (*this)(normalized), (*this)(out)};
}

}  // namespace vitrine
