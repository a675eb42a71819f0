// What the files of families/ share.
#pragma once

#include "checkpoint/family.h"

namespace vitrine {

/// The names that most decoder checkpoints of transformers share: embed_tokens, q_proj …, norm, lm_head.
void use_decoder_names(Family& family);

/// Adds rules to a family's table, in the place of those that hold the same parameters.
void add_tensors(Family& family, std::initializer_list<TensorRule> rules);
/// The norms of a block that has one before each sublayer: input_layernorm, post_attention_layernorm.
void add_pre_norms(Family& family);
/// The norms of a block that has one before and one behind each sublayer.
void add_four_norms(Family& family);
/// A norm over each head of q and k: q_norm, k_norm.
void add_qk_norms(Family& family);
/// Norms over each head of q and k, as the last norm is; biases where attention_bias says so.
void norm_heads(ConfigReader& c, ModelConfig& model);
/// Experts under mlp.experts: gate_proj, up_proj, down_proj, and the router, mlp.gate; and the keys that size them.
void add_experts(Family& family);

/// What a family assumes where its config.json is silent, and the words it spells in its own way.
struct DecoderKeys {
  std::int64_t max_seq_len = 2048;
  bool tied = false;
  std::string_view activation = "silu";
  std::string_view activation_key = "hidden_act";
  std::string_view eps_key = "rms_norm_eps";
  NormConfig norm{NormConfig::Kind::rms, 1e-6f, 0.0f, false};
  std::string_view head_dim_key = "head_dim";               ///< Empty: heads divide d_model, and no key says otherwise.
  std::optional<std::int64_t> head_dim{};                   ///< Absent: d_model / n_heads.
  std::string_view n_kv_heads_key = "num_key_value_heads";  ///< Empty: as many as heads of queries.
  RopeKeys rope{};
};

/// The words that most decoders of transformers share: sizes, norms before both sublayers, RoPE, a gated FFN without
/// biases; no layer differs from another.
ModelConfig read_decoder(ConfigReader& config, const DecoderKeys& keys);
/// What all generations of Gemma share: RMSNorm by 1 + w, a head_dim apart from d_model / n_heads, tied head,
/// embeddings times √d_model. `keys` says the rest.
ModelConfig read_gemma_decoder(ConfigReader& config, DecoderKeys keys);
/// What Cohere 1 and 2 share: a parallel block on one LayerNorm without bias, interleaved RoPE, scaled logits.
ModelConfig read_cohere_decoder(ConfigReader& config, double theta);
/// Makes a block parallel, with one norm for attention and FFN.
void share_norm(BlockConfig& block);
/// The window of all layers: `otherwise` where sliding_window is absent, none where it is null.
void read_window(ConfigReader& config, ModelConfig& model, std::optional<std::int64_t> otherwise);
/// use_sliding_window, sliding_window, max_window_layers and layer_types: the layers from max_window_layers on have a
/// window, or those that layer_types names.
void read_window_of_last_layers(ConfigReader& config, ModelConfig& model);
/// Which layers have experts (decoder_sparse_step, mlp_only_layers), and which experts.
void read_experts_of_some_layers(ConfigReader& config, ModelConfig& model, const MoeConfig& moe);

constexpr bool kTransposed = true;
constexpr bool kAsIs = false;
constexpr std::int64_t kMaxLayers = 10000;

/// head_dim, by `key` (may be empty) or else d_model / n_heads, which must come out even.
std::int64_t read_head_dim(ConfigReader& config, std::string_view key, std::int64_t d_model, std::int64_t n_heads);
/// A softcap: `otherwise` where the key is absent, none where it is null.
std::optional<float> read_softcap(ConfigReader& config, std::string_view key, std::optional<double> otherwise);

}  // namespace vitrine
