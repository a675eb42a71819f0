// The parts that several files of families/ share.
#pragma once

#include "checkpoint/family.h"

namespace vitrine {

// Tables of tensors

/// A family with the tensor names and keys that most decoders of transformers share: embed_tokens, q_proj …, norm,
/// lm_head; input_layernorm before attention, post_attention_layernorm before the FFN; q_norm and k_norm.
Family decoder_family(std::string_view model_type, std::string_view architecture,
                      std::function<ModelConfig(ConfigReader&)> read_config);
/// A family with the names of GPT-2's tensors and keys; weights are stored as [out, in].
Family gpt2_like_family(std::string_view model_type, std::string_view architecture,
                        std::function<ModelConfig(ConfigReader&)> read_config);
/// The same with GPT-J's names of the projections, those of q, k and v apart.
Family gptj_like_family(std::string_view model_type, std::string_view architecture,
                        std::function<ModelConfig(ConfigReader&)> read_config);
/// Adds rules to a table. They replace the rules that hold the same parameters.
void add_tensors(std::vector<TensorRule>& table, const std::vector<TensorRule>& rules);
/// Adds the names of norms before and after each sublayer.
void add_four_norms(Family& family);
/// Adds the name of a tensor that holds the gate and the up projection.
void add_gate_up(Family& family);
/// Replaces the names of the norms before the sublayers by those of norms after them.
void add_norms_after(Family& family);
/// Adds experts (mlp.experts: gate_proj, up_proj, down_proj), their router (mlp.gate), and the keys of their sizes.
void add_experts(Family& family, std::string_view n_experts_key = "num_experts",
                 std::string_view top_k_key = "num_experts_per_tok");

/// Adds the FFN, the router and a shared expert as modules of `feed_forward`.
void add_feed_forward(Family& family);
/// Adds experts whose weights are stored as `[expert, in, out]`, in two tensors without an ending: the gate and the up
/// projection, and the down projection.
void add_transposed_experts(Family& family, std::string_view gate_up, std::string_view down, Rows rows);
/// Adds the sinks of attention.
void add_sinks(Family& family, std::string_view stored = "{p}layers.{l}.self_attn.sinks");
/// Adds shared experts without a gate (mlp.shared_experts).
void add_shared_experts(Family& family);
/// Adds experts next to the dense FFN (mlp), their router and norms.
void add_experts_next_to_ffn(Family& family);
/// Adds the table of per-layer embeddings, the projection and norm of their inputs, and their sublayers.
void add_per_layer_embeddings(Family& family);
/// Adds the tensors of AltUp and LAuReL.
void add_streams(Family& family);
/// Adds the router's correction.
void add_correction(Family& family, std::string_view stored = "{p}layers.{l}.mlp.gate.e_score_correction_bias");
/// Adds Hunyuan's norms of q and k (query_layernorm, key_layernorm).
void add_hunyuan_norms(Family& family);

constexpr bool kTransposed = true;
constexpr bool kAsIs = false;

// Readers of config.json

/// The defaults of a family, and its spelling of some keys.
struct DecoderKeys {
  std::string_view d_model_key = "hidden_size";
  std::string_view n_layers_key = "num_hidden_layers";
  std::string_view n_heads_key = "num_attention_heads";
  std::string_view max_seq_len_key = "max_position_embeddings";
  std::int64_t max_seq_len = 2048;
  bool tied = false;
  std::string_view activation = "silu";
  std::string_view activation_key = "hidden_act";
  std::string_view d_ff_key = "intermediate_size";
  std::int64_t d_ff_factor = 0;  ///< Times d_model if the key is absent; 0: the key is required.
  bool gated = true;             ///< Whether the FFN is gated.
  std::string_view eps_key = "rms_norm_eps";
  NormConfig norm{NormConfig::Kind::rms, 1e-6f, 0.0f, false};
  std::string_view head_dim_key = "head_dim";               ///< Empty: no such key; head_dim is d_model / n_heads.
  std::optional<std::int64_t> head_dim{};                   ///< Absent: d_model / n_heads.
  std::string_view n_kv_heads_key = "num_key_value_heads";  ///< Empty: as many as query heads.
  RopeKeys rope{};
  bool has_rope = true;
  bool may_be_bidirectional = false;  ///< Of Gemma: the family reads use_bidirectional_attention.
};

/// Reads the keys that most decoders of transformers share: sizes, norms before both sublayers, RoPE, an FFN; no
/// biases. All layers are alike.
ModelConfig read_decoder(ConfigReader& config, const DecoderKeys& keys);
/// Reads what all generations of Gemma share: RMSNorm with 1 + w, a head_dim independent of d_model / n_heads, a tied
/// head, embeddings times √d_model. `keys` has the rest.
ModelConfig read_gemma_decoder(ConfigReader& config, DecoderKeys keys);
/// Reads what Cohere 1 and 2 share: a parallel block with one LayerNorm without bias, interleaved RoPE, scaled logits.
/// `theta` is the default of rope_theta.
ModelConfig read_cohere_decoder(ConfigReader& config, double theta);

/// GPT-2's keys and defaults, with LayerNorm, without RoPE.
DecoderKeys gpt2_keys();
/// Reads what GPT-2 and its relatives share: learned positions, biases everywhere, a tied head. Accepts the keys of
/// training, of classifying heads and of the first GPT.
ModelConfig read_gpt2_decoder(ConfigReader& config, DecoderKeys keys);
/// Reads what GPT-J and CodeGen share: a parallel block with one LayerNorm, interleaved RoPE on rotary_dim elements of
/// each head, biases of the FFN and of the head.
ModelConfig read_gptj_decoder(ConfigReader& config);

/// Reads what GLM 4's two generations share: interleaved RoPE on half of each head, biases of q, k and v.
ModelConfig read_glm_decoder(ConfigReader& config);

/// Reads what Granite 3 with and without experts share: a Llama with four multipliers.
ModelConfig read_granite_decoder(ConfigReader& config, const DecoderKeys& keys = {});
/// Reads Granite's windows and sinks, and layer_rope_theta, in which 0 is a layer without RoPE.
void read_granite_windows(ConfigReader& config, ModelConfig& model);
/// Reads what Hunyuan with and without experts share: norms of q and k after RoPE, whose theta `alpha` stretches.
ModelConfig read_hunyuan_decoder(ConfigReader& config);
/// Reads EXAONE 4's windows. Without a size of the window, all layers are full and have RoPE; else the full ones have
/// none.
void read_exaone_windows(ConfigReader& config, ModelConfig& model);

constexpr std::int64_t kMaxLayers = 10000;

/// head_dim from `key` (may be empty), else d_model / n_heads. Throws BadCheckpoint, with the names of the other keys,
/// if that is not a whole number.
std::int64_t read_head_dim(ConfigReader& config, std::string_view key, std::int64_t d_model, std::int64_t n_heads,
                           std::string_view d_model_key = "hidden_size",
                           std::string_view n_heads_key = "num_attention_heads");
/// Throws BadCheckpoint, with the key of a head's size, if RoPE rotates an odd number of elements.
void expect_pairs(const ConfigReader& config, const RopeConfig& rope, std::string_view key);
/// The id at `key`: `otherwise` if the key is absent, none if it is null or not in the vocabulary.
std::optional<std::int32_t> read_id(ConfigReader& c, std::string_view key, std::int64_t otherwise,
                                    std::int64_t vocab_size);
/// A softcap: `otherwise` if the key is absent, none if it is null.
std::optional<float> read_softcap(ConfigReader& config, std::string_view key, std::optional<double> otherwise);
/// An activation by its name in transformers (ACT2FN), the value of `key`. Throws Unsupported for other names.
Activation activation_named(const ConfigReader& config, std::string_view key, std::string_view name);
/// The activation that `key` names.
Activation read_activation(ConfigReader& config, std::string_view key, std::string_view otherwise);
/// The epsilon of a norm, at least 0.
float read_eps(ConfigReader& config, std::string_view key, double otherwise);
/// Throws if the value of `key` is not a multiple of that of `divisor_key`.
void expect_multiple(const ConfigReader& config, std::string_view key, std::int64_t value, std::string_view divisor_key,
                     std::int64_t divisor);
/// Reads attention_bias, for the projections of all layers; absent: none.
void read_attention_bias(ConfigReader& config, ModelConfig& model);
/// Reads attention_bias, and mlp_bias for the FFNs of all layers; absent: none.
void read_biases(ConfigReader& config, ModelConfig& model);
/// Sets the biases of the projections of attention and of the FFN, which is not a mixture of experts, in all layers.
void set_biases(ModelConfig& model, bool attention, bool ffn);
/// Sets the biases of the projections to q, k and v in all layers.
void set_qkv_bias(ModelConfig& model, bool bias);
/// Adds norms of q and k in all layers, configured like the final norm.
void norm_q_and_k(ModelConfig& model, QkNormConfig::Over over);
/// ALiBi for `n_heads` heads. Throws BadCheckpoint for more heads than any model has, before their slopes are computed.
AlibiConfig alibi_for(const ConfigReader& config, std::int64_t n_heads, float max_bias = AlibiConfig().max_bias);
/// Puts the norms after the sublayers instead of before them, configured like the final norm, in all layers.
void norm_after_sublayers(ModelConfig& model);
/// Attention and an FFN, with cross-attention between them if the block `crosses`; without norms.
BlockConfig transformer_block(const AttentionConfig& attention, const SublayerKinds::Config& ffn, bool crosses = false);
/// Makes a block parallel, with one norm for attention and FFN.
void share_norm(BlockConfig& block);
/// The scale of scores, 1 / √`n`.
float inverse_sqrt(double n);

/// Reads the window of all layers: `otherwise` if sliding_window is absent, none if it is null.
void read_window(ConfigReader& config, ModelConfig& model, std::optional<std::int64_t> otherwise);
/// Reads use_sliding_window, sliding_window, max_window_layers and layer_types. The layers that layer_types names have
/// a window; without layer_types, those from max_window_layers on.
void read_window_of_last_layers(ConfigReader& config, ModelConfig& model);
/// Whether each layer attends within the window, by layer_types. If the key is absent: all layers but every
/// `pattern`-th, or an empty list without a pattern.
std::vector<bool> read_sliding_layers(ConfigReader& config, std::size_t n_layers,
                                      std::optional<std::int64_t> pattern = std::nullopt,
                                      std::string_view type = "sliding_attention");
/// Reads the types of layers, of which the last is full_attention whatever layer_types says, and sets the windows.
std::vector<bool> read_sliding_and_last_full(ConfigReader& config, ModelConfig& model, std::int64_t window,
                                             std::int64_t pattern);
/// Reads global_head_dim, num_global_key_value_heads and attention_k_eq_v of the full layers, or the sizes that
/// per_layer_config lists for single layers.
void read_heads_by_kind(ConfigReader& config, ModelConfig& model, const std::vector<bool>& sliding);
/// Reads the tables of both kinds from rope_parameters. Absent: proportional RoPE on a quarter of each full layer's
/// heads.
void read_ropes_by_kind(ConfigReader& config, ModelConfig& model, const std::vector<bool>& sliding);
/// Reads num_kv_shared_layers, or `key` (`otherwise` if absent): so many last layers read the keys and values of the
/// last layer before them of the same kind. Returns the number of the first.
std::size_t read_shared_keys(ConfigReader& config, StackConfig& stack, const std::vector<bool>& sliding,
                             std::int64_t otherwise, std::string_view key = "num_kv_shared_layers");
/// Reads hidden_size_per_layer_input and vocab_size_per_layer_input, and adds per-layer embeddings to all blocks, if
/// there are any, with norms like the final one.
void read_per_layer_embeddings(ConfigReader& config, ModelConfig& model);
/// Adds them, with the factors of Gemma, from a table of `n_rows` rows. The first layer has a dense FFN.
void put_per_layer_embeddings(StackConfig& stack, std::int64_t width, std::int64_t n_rows, const NormConfig& norm);
/// Reads the keys of AltUp and LAuReL; the last sublayers, per-layer embeddings, read the corrected stream.
void read_streams(ConfigReader& config, ModelConfig& model);
/// Reads activation_sparsity_pattern, the share of the gate's elements that each layer zeroes; absent: 0.95 in the
/// first ten layers of more than ten.
void read_sparsity(ConfigReader& config, ModelConfig& model);
/// Whether each layer has RoPE: those with a 1 in no_rope_layers; if that is absent, all but every
/// no_rope_layer_interval-th.
std::vector<bool> read_layers_with_rope(ConfigReader& config, std::size_t n_layers);
/// The spelling of a family's keys of experts, and defaults; 0: the key is required.
struct ExpertKeys {
  std::string_view n_experts_key = "num_experts";
  std::int64_t n_experts = 0;
  std::string_view top_k_key = "num_experts_per_tok";
  std::int64_t top_k = 0;
  std::string_view d_ff_key = "intermediate_size";
  std::int64_t d_ff = 0;
  std::string_view n_shared_key{};  ///< Of shared experts, which are one of their joint width; empty: none.
  std::int64_t n_shared = 0;
  std::int64_t n_group = 1, top_group = 1;  ///< With the router of DeepSeek V3.
};

/// Throws BadCheckpoint, with the names of the keys, if experts do not divide into the router's groups.
void expect_groups(const ConfigReader& config, const MoeConfig& moe, std::string_view n_experts_key,
                   std::string_view top_k_key, std::string_view groups_key = "n_group");
/// Reads experts shaped like the dense FFN but for their width, whose weights are divided by their sum.
MoeConfig read_experts(ConfigReader& config, const ModelConfig& model, const ExpertKeys& keys);
/// The same with the keys and the router of DeepSeek V3: sigmoid, a correction, groups by their two largest, a routed
/// scale. `keys` has the defaults of sizes, and the spelling of keys if it is another.
MoeConfig read_grouped_experts(ConfigReader& config, const ModelConfig& model, ExpertKeys keys, bool renormalize = true,
                               double scale = 1);
/// A decoder_family() with the tensors of such experts.
Family grouped_experts_family(std::string_view model_type, std::string_view architecture,
                              std::function<ModelConfig(ConfigReader&)> read_config);
/// Reads Granite's experts, in all layers, with a shared one if shared_intermediate_size is not 0.
void read_granite_experts(ConfigReader& config, ModelConfig& model);
/// Their tensors.
void add_granite_experts(Family& family);
/// Granite 3 with experts, and a shared one if the config has it.
Family granite_experts_family(std::string_view model_type, std::string_view architecture);
/// Adds experts that files have in one tensor for each layer, `[E, 2 f, d]` (gates first) and `[E, d, f]`.
void add_stacked_experts(Family& family, std::string_view gate_up, std::string_view down);
/// Reads experts next to the dense FFN, which becomes their shared one, if enable_moe_block says so. All parts have
/// norms like the final one.
void read_experts_next_to_ffn(ConfigReader& config, ModelConfig& model);
/// The defaults of latent attention.
struct LatentKeys {
  std::int64_t rank = 512;
  std::optional<std::int64_t> q_rank = 1536;  ///< Absent: no latent of queries.
  std::int64_t nope_dim = 128, rope_dim = 64;
  std::optional<std::int64_t> value_dim = 128;  ///< Absent: d_model / n_heads.
  bool pairs = true;                            ///< The pairs of RoPE are neighbours, unless rope_interleave is false.
};

/// Reads a decoder with latent attention, under the keys that all families have.
ModelConfig read_latent_decoder(ConfigReader& config, DecoderKeys keys, const LatentKeys& latent);
/// Adds the tensors of latent attention, and the keys of its sizes.
void add_latent_attention(Family& family);
/// Reads a decoder with latent attention and experts with the keys of DeepSeek V3. Numbers are defaults.
ModelConfig read_deepseek_v3(ConfigReader& config, DecoderKeys keys, const LatentKeys& latent,
                             const ExpertKeys& experts, std::int64_t first_sparse, double scale);
/// Reads how queries grow with their position from the table of RoPE, which must have the key; empty: they do not.
std::optional<QueryScaleConfig> read_query_scale(ConfigReader& config);
// Mixers with a state (state_parts.cpp)

/// Whether each layer has a state, by layer_types or layers_block_type: `state` or linear_attention or mamba, else
/// attention or full_attention; if both keys are absent, as `otherwise` says.
std::vector<bool> read_state_layers(ConfigReader& config, std::size_t n_layers,
                                    const std::function<bool(std::size_t layer)>& otherwise,
                                    std::string_view state = "linear_attention");
/// Replaces attention by a mixer in the layers that have a state.
void put_mixers(ModelConfig& model, const SublayerKinds::Config& mixer, const std::vector<bool>& has_state);
/// A stack of blocks of a mixer alone, as Mamba's, with no longest text.
ModelConfig read_mixer_stack(ConfigReader& config, bool tied);
/// Reads a delta net's sizes from linear_num_key_heads and the like; absent ones are those of `defaults`.
DeltaNetConfig read_delta_net(ConfigReader& config, const DeltaNetConfig& defaults);
/// The spelling of a family's keys of Mamba-2, and defaults.
struct Mamba2Keys {
  std::string_view n_heads = "mamba_n_heads", head_dim = "mamba_d_head", n_groups = "mamba_n_groups";
  std::string_view d_state = "mamba_d_state", d_conv = "mamba_d_conv", expand = "mamba_expand";
  std::string_view conv_bias = "mamba_conv_bias", bias = "mamba_proj_bias", activation = "hidden_act";
  std::int64_t heads = 128, groups = 1, state = 256;
};
/// Reads Mamba-2 with a norm like the final one after the gate.
Mamba2Config read_mamba2(ConfigReader& config, const ModelConfig& model, const Mamba2Keys& keys,
                         std::optional<std::int64_t> inner = std::nullopt);
/// Accepts the keys of Mamba that concern training and kernels.
void ignore_mamba_keys(ConfigReader& config);
/// Adds the tensors of Mamba or Mamba-2, which are parts of the module `slot` of a layer, such as `mixer`.
void add_mamba(Family& family, std::string_view slot);
/// Adds the tensors that all delta nets name alike (linear_attn): A_log, dt_bias.
void add_delta_net(Family& family, std::string_view slot);
/// A family with the names of Mamba's first models: backbone.embeddings, layers.{l}.norm, norm_f.
Family mamba_like_family(std::string_view model_type, std::string_view architecture,
                         std::function<ModelConfig(ConfigReader&)> read_config);
/// Reads Mamba's keys; without a norm of steps, B and C.
MambaConfig read_mamba(ConfigReader& config, const ModelConfig& model);
/// A rule for a convolution, whose tensor has a dimension of 1 in the middle.
TensorRule convolution_rule(std::string_view stored, std::string_view ours);
/// The name of a part of a layer's module, kept for the life of the program.
std::string_view part_name(std::string_view slot, std::string_view part);
/// Reads the attention of Qwen 3.5, whose query projection also holds the gate of the output.
void add_gated_queries(Family& family);
/// Reads what Qwen3-Next and 3.5 share.
ModelConfig read_qwen_hybrid(ConfigReader& config, DeltaNetConfig::Projections projections,
                             std::string_view d_ff_key = "intermediate_size");
/// Adds the tensors of Qwen 3.5's delta nets.
void add_qwen3_5_delta_net(Family& family);
/// Adds Qwen's shared expert, and its gate.
void add_qwen_shared_expert(Family& family);
/// Adds projections, convolutions and a norm of a delta net (`slot`) under the names q_proj, q_conv1d, o_norm ….
void add_apart_projections(Family& family, std::string_view slot);
/// Adds LFM2's tensors but those of the feed-forward.
void add_lfm2(Family& family);
/// Reads what LFM2 with and without experts share.
ModelConfig read_lfm2_decoder(ConfigReader& config);

/// Puts experts into the layers from `first` on, or into those that `has` names.
void put_experts(ModelConfig& model, const MoeConfig& moe, std::int64_t first = 0);
void put_experts(ModelConfig& model, const MoeConfig& moe, const std::function<bool(std::int64_t layer)>& has);
/// The layers that mlp_layer_types calls sparse; if that is absent, those from first_k_dense_replace on.
std::function<bool(std::int64_t layer)> read_sparse_layers(ConfigReader& config, std::size_t n_layers,
                                                           std::int64_t first);
/// Reads first_k_dense_replace, which may be 0.
std::int64_t read_first_sparse_layer(ConfigReader& config, std::int64_t otherwise);
/// Reads Qwen's experts, in the layers that decoder_sparse_step and mlp_only_layers select. The numbers are defaults;
/// without `d_ff_shared` there is no shared expert.
void read_qwen_experts(ConfigReader& config, ModelConfig& model, std::int64_t n_experts, std::int64_t top_k,
                       std::int64_t d_ff, std::optional<std::int64_t> d_ff_shared = std::nullopt);

}  // namespace vitrine
