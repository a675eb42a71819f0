// Sites: the values of a forward that can be read and replaced, with their names, shapes and meanings.
//
// Names follow TransformerLens's legacy names. Here are the sites of the stream, the norms around sublayers, the
// embedding and the head; a kind of sublayer has a table of its own (ops/attention_sites.h, model/mixers/ffn/sites.h),
// made alike. model/sites.h lists all.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace vitrine {

/// A dimension of a value. A mixer that needs others defines them next to its sites.
struct Dim {
  std::string_view name;
  bool operator==(const Dim&) const = default;
};
namespace dims {
inline constexpr Dim T{"T"}, T_1{"T-1"};  // tokens of the pass, and those but the last
inline constexpr Dim S{"S"};              // positions so far
inline constexpr Dim n{"n"};              // tokens that chose an expert
inline constexpr Dim d{"d"}, V{"V"};      // d_model, vocab_size
inline constexpr Dim R{"R"}, L{"L"};      // texts, or tokens of a head that reads each; labels
inline constexpr Dim one{"1"}, two{"2"};
}  // namespace dims

class SiteShape {
 public:
  constexpr SiteShape(std::initializer_list<Dim> dims) : rank_(dims.size()) {
    std::size_t i = 0;
    for (const Dim dim : dims) dims_[i++] = dim;
  }
  constexpr std::span<const Dim> dims() const { return {dims_.data(), rank_}; }

 private:
  std::array<Dim, 4> dims_{};
  std::size_t rank_;
};
std::string to_string(const SiteShape& shape);  ///< `[T, H, dh]`

/// Where in a forward a site is. A block has its sublayers in this order: a mixer of tokens, cross-attention (the same
/// places again, SiteId::cross), an FFN.
enum class SitePlace : std::uint8_t {
  embedding,
  block_input,
  prediction,  ///< Of streams (AltUp).
  mixer_input,
  mixer_norm,
  mixer,
  mixer_post_norm,
  mixer_output,
  laurel,
  laurel_output,
  middle,
  layer,  ///< Of a layer that replaces the stream.
  ffn_input,
  ffn_norm,
  ffn,
  ffn_post_norm,
  ffn_output,
  ple_stream,
  correction,  ///< Of streams.
  ple_input,
  ple,
  ple_post_norm,
  ple_output,
  block_output,
  final_norm,
  head,
};

struct SiteInfo {
  SitePlace place;
  bool on_demand;         ///< Not in the default set: needs a glob that ends in its name.
  std::string_view name;  ///< `attn.hook_q`; `{m}` is the number of the MLP's norm, 2 or, after cross-attention, 3.
  SiteShape shape;
  std::string_view meaning;
  std::uint32_t dropout = 0;  ///< Tells the masks of sites with dropout from each other.

  /// One per layer, with a name that begins with `blocks.{layer}.`
  bool in_block() const { return place >= SitePlace::block_input && place <= SitePlace::block_output; }
  /// One per expert of a layer. `{e}` in the name is replaced by the expert's number, or by `E` for no particular one.
  bool in_expert() const { return name.find("{e}") != std::string_view::npos; }
  /// One of the head, which belongs to no stack.
  bool in_head() const { return place == SitePlace::head; }
  /// The values are numbers of rows: those of the tokens that chose an expert.
  bool has_row_numbers() const { return shape.dims().size() == 1 && shape.dims()[0] == dims::n; }
};

/// The sites of a kind, in the order of its enum, which is that of a forward.
struct SiteTable {
  std::string_view name;
  std::span<const SiteInfo> rows;
};

inline constexpr bool kOnDemand = true, kDefault = false;

/// A site: a row of a table. Every enum whose sites_of(E) is a table converts to it.
class Site {
 public:
  enum Shared : std::uint8_t {
    tokens,
    embed,
    type_embed,
    pos_embed,
    embed_scale,
    embed_normalized,
    embed_out,
    resid_pre,
    ln1_scale,
    ln1_normalized,
    ln1_out,
    ln1_post_scale,
    ln1_post_normalized,
    ln1_post_out,
    resid_mid,
    mid_scale,
    mid_normalized,
    mid_out,
    normalized_resid_mid,
    ln2_scale,
    ln2_normalized,
    ln2_out,
    ln2_post_scale,
    ln2_post_normalized,
    ln2_post_out,
    resid_mid_ple,
    ln3_post_scale,
    ln3_post_normalized,
    ln3_post_out,
    resid_post,
    post_scale,
    post_normalized,
    post_out,
    third_scale,
    third_normalized,
    third_out,
    normalized_resid_post,
    final_scale,
    final_normalized,
    final_out,
    pooler_out,
    nsp_out,
    head_pooled,
    head_dense,
    head_labels,
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

  template <class E>
  requires requires(E e) { sites_of(e); }
  constexpr Site(E row) : table_(&sites_of(row)), row_(static_cast<std::uint8_t>(row)) {}
  constexpr Site(const SiteTable& table, std::size_t row) : table_(&table), row_(static_cast<std::uint8_t>(row)) {}

  constexpr const SiteInfo& info() const { return table_->rows[row_]; }
  constexpr const SiteTable& table() const { return *table_; }
  constexpr std::size_t row() const { return row_; }

  friend constexpr bool operator==(Site a, Site b) { return a.table_ == b.table_ && a.row_ == b.row_; }
  /// In the order of a forward, of the same stack and layer.
  friend bool operator<(Site a, Site b);

 private:
  const SiteTable* table_;
  std::uint8_t row_;
};

inline constexpr auto kSharedSites = [] {
  using namespace dims;
  return std::to_array<SiteInfo>({
      {SitePlace::embedding, kDefault, "hook_tokens", {T}, "token ids"},
      {SitePlace::embedding, kDefault, "hook_embed", {T, d}, "token embeddings, times the embedding scale", 1},
      {SitePlace::embedding, kDefault, "hook_token_type_embed", {T, d}, "embeddings of the tokens' types"},
      {SitePlace::embedding, kDefault, "hook_pos_embed", {T, d}, "learned position embeddings"},
      {SitePlace::embedding, kDefault, "ln_embed.hook_scale", {T, one}, "the divisor of the norm of the embedding"},
      {SitePlace::embedding, kDefault, "ln_embed.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::embedding, kDefault, "ln_embed.hook_out", {T, d}, "after the weight"},
      {SitePlace::block_input,
       kDefault,
       "hook_resid_pre",
       {T, d},
       "the residual stream before the block; with AltUp all streams next to each other, [T, n_streams · d]"},
      {SitePlace::mixer_norm, kDefault, "ln1.hook_scale", {T, one}, "the divisor of the norm before attention"},
      {SitePlace::mixer_norm, kDefault, "ln1.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::mixer_norm, kDefault, "ln1.hook_out", {T, d}, "after the weight: the input of attention"},
      {SitePlace::mixer_post_norm,
       kDefault,
       "ln1_post.hook_scale",
       {T, one},
       "the divisor of the norm after attention"},
      {SitePlace::mixer_post_norm, kDefault, "ln1_post.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::mixer_post_norm, kDefault, "ln1_post.hook_out", {T, d}, "after the weight"},
      {SitePlace::middle,
       kDefault,
       "hook_resid_mid",
       {T, d},
       "the stream between attention and MLP; absent from parallel blocks"},
      {SitePlace::middle, kDefault, "ln1.hook_scale", {T, one}, "the divisor of a norm of resid_mid"},
      {SitePlace::middle, kDefault, "ln1.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::middle, kDefault, "ln1.hook_out", {T, d}, "after the weight"},
      {SitePlace::middle,
       kDefault,
       "hook_normalized_resid_mid",
       {T, d},
       "the stream between attention and MLP where the sum is normalized"},
      {SitePlace::ffn_norm, kDefault, "ln{m}.hook_scale", {T, one}, "the divisor of the norm before the MLP"},
      {SitePlace::ffn_norm, kDefault, "ln{m}.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::ffn_norm, kDefault, "ln{m}.hook_out", {T, d}, "after the weight: the input of the MLP"},
      {SitePlace::ffn_post_norm, kDefault, "ln{m}_post.hook_scale", {T, one}, "the divisor of the norm after the MLP"},
      {SitePlace::ffn_post_norm, kDefault, "ln{m}_post.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::ffn_post_norm, kDefault, "ln{m}_post.hook_out", {T, d}, "after the weight"},
      {SitePlace::ple_stream,
       kDefault,
       "hook_resid_mid_ple",
       {T, d},
       "the stream between MLP and per-layer embedding; only in blocks with one"},
      {SitePlace::ple_post_norm,
       kDefault,
       "ln3_post.hook_scale",
       {T, one},
       "the divisor of the norm after the per-layer embedding"},
      {SitePlace::ple_post_norm, kDefault, "ln3_post.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::ple_post_norm, kDefault, "ln3_post.hook_out", {T, d}, "after the weight"},
      {SitePlace::block_output,
       kDefault,
       "hook_resid_post",
       {T, d},
       "the residual stream after the block; with AltUp all streams",
       90},
      {SitePlace::block_output, kDefault, "ln{m}.hook_scale", {T, one}, "the divisor of a norm of resid_post"},
      {SitePlace::block_output, kDefault, "ln{m}.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::block_output, kDefault, "ln{m}.hook_out", {T, d}, "after the weight"},
      {SitePlace::block_output, kDefault, "ln3.hook_scale", {T, one}, "the same after a third sublayer"},
      {SitePlace::block_output, kDefault, "ln3.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::block_output, kDefault, "ln3.hook_out", {T, d}, "after the weight"},
      {SitePlace::block_output,
       kDefault,
       "hook_normalized_resid_post",
       {T, d},
       "the stream after the block where the sum is normalized"},
      {SitePlace::final_norm, kDefault, "ln_final.hook_scale", {T, one}, "the divisor of the final norm"},
      {SitePlace::final_norm, kDefault, "ln_final.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::final_norm, kDefault, "ln_final.hook_out", {T, d}, "after the weight"},
      {SitePlace::head,
       kDefault,
       "pooler.hook_pooler_out",
       {one, d},
       "the vector of the whole text, from its first row"},
      {SitePlace::head,
       kDefault,
       "nsp_head.hook_nsp_out",
       {one, two},
       "logits: the second part follows the first, or not"},
      {SitePlace::head,
       kDefault,
       "head.hook_pooled",
       {one, d},
       "the row of the text that a classifier reads: its first, its last, or the mean of all"},
      {SitePlace::head,
       kDefault,
       "head.hook_dense",
       {R, d},
       "a classifier's dense layer, after activation and norm; of the text, or of each token"},
      {SitePlace::head, kDefault, "head.hook_out", {R, L}, "a classifier's outputs, one for each label"},
      {SitePlace::head, kDefault, "head.hook_pre", {T, d}, "the head's dense layer, before the activation"},
      {SitePlace::head, kDefault, "head.hook_post", {T, d}, "after the activation"},
      {SitePlace::head, kDefault, "head.ln.hook_scale", {T, one}, "the divisor of the head's norm"},
      {SitePlace::head, kDefault, "head.ln.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::head, kDefault, "head.ln.hook_out", {T, d}, "after the weight"},
      {SitePlace::head, kDefault, "unembed.hook_in", {T, d}, "the input of the unembedding"},
      {SitePlace::head, kDefault, "unembed.hook_out", {T, V}, "logits before scale and softcap"},
      {SitePlace::head, kDefault, "hook_logits", {T, V}, "logits after scale and softcap"},
      {SitePlace::head, kDefault, "hook_loss", {T_1}, "−log p of the next token, in nats"},
  });
}();
inline constexpr SiteTable kSharedTable{"shared", kSharedSites};
constexpr const SiteTable& sites_of(Site::Shared) { return kSharedTable; }
static_assert(kSharedSites.size() == static_cast<std::size_t>(Site::loss) + 1);

inline const SiteInfo& info(Site site) { return site.info(); }

/// The values of a dictionary (pass/dictionary.h), in the order of a forward; pass/dictionary_sites.h has their table.
enum class DictionarySite : std::uint8_t { input, acts_pre, acts_post, recons, error, output };

/// The stack of blocks that a site belongs to. Names have no prefix if there is only one stack.
enum class Stack : std::uint8_t { only, encoder, decoder };

/// One site of one layer. Scores and patterns have a site for each segment of the pass.
struct SiteId {
  Site site = Site::tokens;
  int layer = -1;    ///< −1: outside the blocks.
  int segment = -1;  ///< −1: the value has all rows of the pass.
  int expert = kNoExpert;
  Stack stack = Stack::only;
  bool cross = false;  ///< The site of cross-attention, not that of the attention within the stack.
  /// Not null: a value of a dictionary that is attached to the site, whose name this is. The name is the dictionary's
  /// own member, so two dictionaries at one site differ.
  const std::string* dictionary = nullptr;
  DictionarySite value = DictionarySite::input;  ///< Which, if `dictionary` is not null.

  static constexpr int kNoExpert = -1;
  static constexpr int kShared = -2;  ///< The expert of every token.

  bool operator==(const SiteId&) const = default;
  /// The site that a dictionary's value belongs to; else itself.
  SiteId without_dictionary() const { return {site, layer, segment, expert, stack, cross}; }
};
/// That of a dictionary's value, if `id` is one.
const SiteInfo& info(const SiteId& id);

/// Whether `a` comes before `b` in a forward.
bool precedes(const SiteId& a, const SiteId& b);
std::string name_of(const SiteId& id);  ///< `blocks.3.attn.hook_q`, `blocks.3.hook_resid_post.NAME.hook_sae_error`

/// The three sites of a norm.
struct NormSite {
  SiteId scale;
  SiteId normalized;
  SiteId out;
};

/// The sites of a norm, in any layer.
struct NormSites {
  Site scale, normalized, out;
};
namespace norms {
inline constexpr NormSites embed{Site::embed_scale, Site::embed_normalized, Site::embed_out};
inline constexpr NormSites ln1{Site::ln1_scale, Site::ln1_normalized, Site::ln1_out};
inline constexpr NormSites ln1_post{Site::ln1_post_scale, Site::ln1_post_normalized, Site::ln1_post_out};
inline constexpr NormSites mid{Site::mid_scale, Site::mid_normalized, Site::mid_out};
inline constexpr NormSites ln2{Site::ln2_scale, Site::ln2_normalized, Site::ln2_out};
inline constexpr NormSites ln2_post{Site::ln2_post_scale, Site::ln2_post_normalized, Site::ln2_post_out};
inline constexpr NormSites ln3_post{Site::ln3_post_scale, Site::ln3_post_normalized, Site::ln3_post_out};
inline constexpr NormSites post{Site::post_scale, Site::post_normalized, Site::post_out};
inline constexpr NormSites third{Site::third_scale, Site::third_normalized, Site::third_out};
inline constexpr NormSites final{Site::final_scale, Site::final_normalized, Site::final_out};
inline constexpr NormSites head{Site::head_scale, Site::head_normalized, Site::head_out};
}  // namespace norms

/// The sites of one layer: `at(AttentionSite::q)`, `at(norms::ln1)`.
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
  NormSite operator()(const NormSites& norm) const {
    return {(*this)(norm.scale), (*this)(norm.normalized), (*this)(norm.out)};
  }
};

}  // namespace vitrine
