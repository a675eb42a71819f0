// Sites: the values of a forward that can be read and replaced, with their names, shapes and meanings.
//
// Names follow TransformerLens's legacy names. Letters: T tokens of the pass, S positions so far, H query heads, K
// key/value heads, dh head_dim, d d_model, V vocab_size. A norm of q or k is over Nq or Nk groups of nq or nk elements
// (a group is one head, or all heads). E experts, k of them chosen per token, n tokens that chose an expert, d_fe the
// d_ff of an expert, d_h d_hidden of a recurrent cell.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace vitrine {

enum class Site : std::uint8_t {
  tokens,
  embed,
  type_embed,
  pos_embed,
  embed_scale,
  embed_normalized,
  embed_out,
  resid_pre,
  attn_in,
  q_input,
  k_input,
  v_input,
  cross_attn_in,
  ln1_scale,
  ln1_normalized,
  ln1_out,
  lora_q,
  q,
  lora_k,
  k,
  lora_v,
  v,
  q_norm_scale,
  q_norm_normalized,
  q_norm_out,
  k_norm_scale,
  k_norm_normalized,
  k_norm_out,
  rot_q,
  rot_k,
  scores_raw,
  scores,
  pattern,
  z,
  result,
  lora_out,
  attn_proj,
  ln1_post_scale,
  ln1_post_normalized,
  ln1_post_out,
  attn_out,
  resid_mid,
  mid_scale,
  mid_normalized,
  mid_out,
  normalized_resid_mid,
  cell_i,
  cell_f,
  cell_g,
  cell_o,
  cell_r,
  cell_z,
  cell_n,
  cell_c,
  cell_h,
  reverse_i,
  reverse_f,
  reverse_g,
  reverse_o,
  reverse_r,
  reverse_z,
  reverse_n,
  reverse_c,
  reverse_h,
  mlp_in,
  ln2_scale,
  ln2_normalized,
  ln2_out,
  router_logits,
  expert_weights,
  expert_indices,
  expert_tokens,
  expert_lora_gate,
  expert_gate,
  expert_lora_up,
  expert_pre,
  expert_post,
  expert_lora_down,
  expert_out,
  lora_gate,
  mlp_pre,
  lora_up,
  mlp_pre_linear,
  mlp_post,
  lora_down,
  mlp_proj,
  ln2_post_scale,
  ln2_post_normalized,
  ln2_post_out,
  mlp_out,
  resid_post,
  post_scale,
  post_normalized,
  post_out,
  normalized_resid_post,
  final_scale,
  final_normalized,
  final_out,
  pooler_out,
  nsp_out,
  head_pre,
  head_post,
  head_scale,
  head_normalized,
  head_out,
  unembed_in,
  unembed_out,
  logits,
  loss,
};

/// A dimension of a value, by the letters above; `one` has size 1, `two` 2, `T_1` T − 1.
enum class Dim : std::uint8_t { T, T_1, S, n, one, two, H, K, dh, d, V, Nq, nq, Nk, nk, E, k, d_fe, d_ff, d_h };
std::string_view name_of(Dim dim);

class SiteShape {
 public:
  constexpr SiteShape(std::initializer_list<Dim> dims) : rank_(dims.size()) {
    std::size_t i = 0;
    for (const Dim dim : dims) dims_[i++] = dim;
  }
  constexpr std::span<const Dim> dims() const { return {dims_.data(), rank_}; }

 private:
  std::array<Dim, 3> dims_{};
  std::size_t rank_;
};
std::string to_string(const SiteShape& shape);  ///< `[T, H, dh]`

struct SiteInfo {
  Site site;
  bool in_block;          ///< One per layer, with a name that begins with `blocks.{layer}.`
  bool on_demand;         ///< Not in the default set: needs a glob that ends in its name.
  std::string_view name;  ///< `attn.hook_q`; `{m}` is the number of the MLP's norm, 2 or, after cross-attention, 3.
  SiteShape shape;
  std::string_view meaning;

  /// One per expert of a layer. `{e}` in the name is replaced by the expert's number, or by `E` for no particular one.
  bool in_expert() const { return name.find("{e}") != std::string_view::npos; }
};

/// All sites in the order of a forward, which is also the order of the enum.
std::span<const SiteInfo> all_sites();
inline const SiteInfo& info(Site site) { return all_sites()[static_cast<std::size_t>(site)]; }

/// The stack of blocks that a site belongs to. Names have no prefix if there is only one stack.
enum class Stack : std::uint8_t { only, encoder, decoder };

/// Whether the site is one of the head, which belongs to no stack.
inline bool in_head(Site site) { return site >= Site::pooler_out; }
/// Whether cross-attention, which has the sites of attention under other names, has this one.
bool in_cross_attention(Site site);

/// One site of one layer. Scores and patterns have a site for each segment of the pass.
struct SiteId {
  Site site = Site::tokens;
  int layer = -1;    ///< −1: outside the blocks.
  int segment = -1;  ///< −1: the value has all rows of the pass.
  int expert = kNoExpert;
  Stack stack = Stack::only;
  bool cross = false;  ///< The site of cross-attention, not that of the attention within the stack.

  static constexpr int kNoExpert = -1;
  static constexpr int kShared = -2;  ///< The expert of every token.

  bool operator==(const SiteId&) const = default;
};

/// Whether `a` comes before `b` in a forward.
bool precedes(const SiteId& a, const SiteId& b);
std::string name_of(const SiteId& id);  ///< `blocks.3.attn.hook_q`

/// The three sites of a norm.
struct NormSite {
  SiteId scale;
  SiteId normalized;
  SiteId out;
};

enum class Norm : std::uint8_t { ln1, q, k, ln1_post, ln2, ln2_post, final, embed, mid, post, head };

/// The sites of one layer: `at(Site::q)`, `at(Norm::ln1)`.
struct BlockSite {
  int layer = -1;
  Stack stack = Stack::only;
  bool cross = false;

  /// Those of the layer's cross-attention.
  BlockSite of_cross() const { return {layer, stack, true}; }
  SiteId operator()(Site site, int segment = -1) const {
    return {site, layer, segment, SiteId::kNoExpert, stack, cross};
  }
  SiteId of_expert(Site site, int expert) const { return {site, layer, -1, expert, stack}; }
  NormSite operator()(Norm norm) const;
};

}  // namespace vitrine
