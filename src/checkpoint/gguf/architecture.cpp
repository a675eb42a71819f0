#include "checkpoint/gguf/architecture.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/gguf/layer_kinds.h"
#include "checkpoint/gguf/misread.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

using Kind = GgufKey::Kind;

constexpr GgufKey kSharedKeys[] = {
    {"context_length", "max_seq_len", Kind::size, true},   {"embedding_length", "d_model", Kind::size, true},
    {"block_count", "n_layers", Kind::size, true},         {"feed_forward_length", "d_ff", Kind::size, true},
    {"attention.head_count", "n_heads", Kind::size, true},
};

/// Keys of a mixture of experts. The key of an expert's width differs between architectures.
std::vector<GgufKey> expert_keys(std::vector<GgufKey> more) {
  return with_keys({{"expert_count", "n_experts", Kind::size, true}, {"expert_used_count", "top_k", Kind::size, true}},
                   std::move(more));
}

/// The file does not contain the scale of scores: llama.cpp recognizes the 27B model by its number of layers.
void complete_score_scale(Json& config, int layers_of_27b) {
  const auto size = [&](const char* key) { return config[key].get<std::int64_t>(); };
  config["query_pre_attn_scalar"] =
      size("num_hidden_layers") == layers_of_27b ? size("hidden_size") / size("num_attention_heads") : size("head_dim");
}

void complete_gemma2(Json& config, const StoredTensors&) { complete_score_scale(config, 46); }

/// Without the size of a window, no layer has one.
void complete_gemma3(Json& config, const StoredTensors&) {
  complete_score_scale(config, 62);
  if (!config.contains("sliding_window")) config["sliding_window_pattern"] = 1;
}

/// Only the newer decoders have a second norm or groups of heads.
void complete_falcon(Json& config, const StoredTensors& tensors) {
  const bool two_norms = tensors.all.contains("blk.0.attn_norm_2.weight");
  const bool is_new = two_norms || (config.contains("num_kv_heads") && config["num_kv_heads"] != 1);
  config["new_decoder_architecture"] = is_new;
  config["num_ln_in_parallel_attn"] = two_norms ? 2 : 1;
}

bool has_two_norms(const BlockConfig& block) { return block.sublayers.back().norms.pre.has_value(); }
bool has_one_norm(const BlockConfig& block) { return !has_two_norms(block); }

/// If there are two norms, `attn_norm` is that of the FFN.
std::vector<TensorRule> falcon_norms() {
  return {{"blk.{l}.attn_norm", {"blocks.{l}.ln1"}, false, Rows::stacked, has_one_norm},
          {"blk.{l}.attn_norm", {"blocks.{l}.ln2"}, false, Rows::stacked, has_two_norms},
          {"blk.{l}.attn_norm_2", {"blocks.{l}.ln1"}, false, Rows::stacked, has_two_norms}};
}

/// One tensor that holds the gate and the up projection.
std::vector<TensorRule> gate_up() { return {{"blk.{l}.ffn_up", {"blocks.{l}.mlp.w_gate", "blocks.{l}.mlp.w_up"}}}; }

/// Older files lack the width of an expert: the chosen experts together are as wide as the shared one.
void complete_qwen2moe(Json& config, const StoredTensors&) {
  const auto d_ff = config["intermediate_size"].get<std::int64_t>(),
             top_k = config["num_experts_per_tok"].get<std::int64_t>();
  if (!config.contains("moe_intermediate_size")) config["moe_intermediate_size"] = d_ff / top_k;
  if (!config.contains("shared_expert_intermediate_size")) config["shared_expert_intermediate_size"] = d_ff;
}

/// A file with norms of q and k is Command R+.
void complete_command_r(Json& config, const StoredTensors& tensors) {
  config["use_qk_norm"] = tensors.all.contains("blk.0.attn_q_norm.weight");
}

/// Whether q, k and v have biases, which these families have by default.
void complete_attention_bias(Json& config, const StoredTensors& tensors) {
  config["attention_bias"] = tensors.all.contains("blk.0.attn_q.bias") || tensors.all.contains("blk.0.attn_qkv.bias");
}

/// A file without windows has no key for them.
void complete_exaone4(Json& config, const StoredTensors&) {
  if (!config.contains("sliding_window")) config["sliding_window"] = nullptr;
}

/// The keys of attention are in a table of their own, and the FFN has 4 d_model elements in all models.
void complete_mpt(Json& config, const StoredTensors& tensors) {
  if (config["d_ff"] != 4 * config["d_model"].get<std::int64_t>()) {
    throw Unsupported(tensors.where, "mpt.feed_forward_length: expected 4 × mpt.embedding_length");
  }
  config.erase("d_ff");
  for (const char* key : {"alibi_bias_max", "clip_qkv"}) {
    if (!config.contains(key)) continue;
    config["attn_config"][key] = config[key];
    config.erase(key);
  }
}

/// There is one K/V head, or one for each head.
void complete_starcoder(Json& config, const StoredTensors& tensors) {
  const bool is_shared = config["n_kv_heads"] == 1;
  if (!is_shared && config["n_kv_heads"] != config["n_head"]) {
    throw Unsupported(tensors.where, "starcoder.attention.head_count_kv: expected 1, or one for each head");
  }
  config["multi_query"] = is_shared;
  config.erase("n_kv_heads");
}

/// A file with norms of q and k is StableLM 2 12B.
void complete_stablelm(Json& config, const StoredTensors& tensors) {
  config["qk_layernorm"] = tensors.all.contains("blk.0.attn_q_norm.weight");
}

/// Granite 4 without states and experts.
bool is_dense_granite(const ModelConfig& config) {
  return std::all_of(config.blocks.begin(), config.blocks.end(), [](const BlockConfig& block) {
    return find<AttentionConfig>(block) != nullptr && find<DenseConfig>(block) != nullptr;
  });
}

bool reads_one_way(const ModelConfig& config) { return !is_bidirectional(config); }

/// llama.cpp always divides the chosen weights by their sum.
void complete_qwen3moe(Json& config, const StoredTensors&) { config["norm_topk_prob"] = true; }

}  // namespace

std::vector<GgufKey> granite_keys() {
  return {{"attention.scale", "attention_multiplier", Kind::number, true},
          {"embedding_scale", "embedding_multiplier", Kind::number, true},
          {"residual_scale", "residual_multiplier", Kind::number, true},
          {"logit_scale", "logits_scaling", Kind::number, true}};
}

std::vector<GgufKey> rms_and_rope_keys() {
  return {{"attention.head_count_kv", "n_kv_heads"},
          {"attention.key_length", "head_dim"},
          {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Kind::number, true},
          {"rope.freq_base", "rope_theta", Kind::number}};
}

std::vector<GgufKey> layer_norm_and_rope_keys(std::string_view eps) {
  return {{"attention.layer_norm_epsilon", eps, Kind::number, true},
          {"rope.freq_base", "rope_theta", Kind::number},
          {"attention.head_count_kv", "n_kv_heads"}};
}

std::vector<GgufKey> with_keys(std::vector<GgufKey> keys, const std::vector<GgufKey>& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

/// One entry for each architecture; two if its files with experts belong to another family.
std::span<const GgufArchitecture> all_gguf_architectures() {
  static const std::vector<GgufArchitecture> own = {
      {.name = "llama",
       .family = "llama",
       .is_also = {"mistral", "ministral", "internlm3"},
       .layout = RopeConfig::Layout::interleaved,
       .keys = rms_and_rope_keys()},
      {.name = "llama",
       .family = "mixtral",
       .layout = RopeConfig::Layout::interleaved,
       .keys = with_keys(rms_and_rope_keys(), expert_keys({})),
       .chosen_by = "expert_count"},
      {.name = "gemma", .family = "gemma", .keys = rms_and_rope_keys()},
      {.name = "gemma2",
       .family = "gemma2",
       .keys = with_keys(rms_and_rope_keys(), {{"attention.sliding_window", "window"},
                                               {"attn_logit_softcapping", "attn_logit_softcapping", Kind::number},
                                               {"final_logit_softcapping", "final_logit_softcapping", Kind::number}}),
       .complete = complete_gemma2},
      {.name = "gpt2",
       .family = "gpt2",
       .keys = {{"attention.layer_norm_epsilon", "layer_norm_epsilon", Kind::number, true}},
       .fused_qkv = true},
      {.name = "bloom",
       .family = "bloom",
       .keys = {{"attention.layer_norm_epsilon", "layer_norm_epsilon", Kind::number, true},
                {"attention.head_count_kv", "n_kv_heads"}},
       .fused_qkv = true,
       .tensors = {{"token_embd_norm", {"ln_embed"}}}},
      {.name = "mpt",
       .family = "mpt",
       .keys = {{"attention.layer_norm_epsilon", "layer_norm_epsilon", Kind::number, true},
                {"attention.clamp_kqv", "clip_qkv", Kind::number},
                {"attention.max_alibi_bias", "alibi_bias_max", Kind::number, true}},
       .fused_qkv = true,
       .complete = complete_mpt},
      {.name = "starcoder",
       .family = "gpt_bigcode",
       .keys = {{"attention.layer_norm_epsilon", "layer_norm_epsilon", Kind::number, true},
                {"attention.head_count_kv", "n_kv_heads", Kind::size, true}},
       .fused_qkv = true,
       .complete = complete_starcoder},
      {.name = "qwen2", .family = "qwen2", .keys = rms_and_rope_keys()},
      {.name = "qwen3", .family = "qwen3", .keys = rms_and_rope_keys()},
      {.name = "qwen2moe",
       .family = "qwen2_moe",
       .keys = with_keys(rms_and_rope_keys(),
                         expert_keys({{"expert_feed_forward_length", "d_ff_expert"},
                                      {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"}})),
       .complete = complete_qwen2moe},
      {.name = "qwen3moe",
       .family = "qwen3_moe",
       .keys = with_keys(rms_and_rope_keys(),
                         expert_keys({{"expert_feed_forward_length", "d_ff_expert", Kind::size, true}})),
       .complete = complete_qwen3moe},
      {.name = "gemma3",
       .family = "gemma3_text",
       .written_for = reads_one_way,
       .keys = with_keys(rms_and_rope_keys(),
                         {{"attention.sliding_window", "window", Kind::size_or_none},
                          {"attention.sliding_window_pattern", "sliding_window_pattern", Kind::size, false, 6.0},
                          {"rope.freq_base_swa", "rope_local_base_freq", Kind::number, false, 10000.0},
                          {"final_logit_softcapping", "final_logit_softcapping", Kind::number}}),
       .complete = complete_gemma3},
      {.name = "gemma4",
       .family = "gemma4_text",
       .keys = layer_kind_keys(),
       .has_rope_by_kind = true,
       .tokenizer_keeps_merges = true,
       .tensors = layer_kind_tensors(),
       .complete = complete_layer_kinds,
       .misread = misread_layer_kinds},
      {.name = "olmo",
       .family = "olmo",
       .layout = RopeConfig::Layout::interleaved,
       .keys =
           with_keys(layer_norm_and_rope_keys("layer_norm_eps"), {{"attention.clamp_kqv", "clip_qkv", Kind::number}}),
       .misread = any_bias},
      {.name = "olmo2", .family = "olmo2", .keys = rms_and_rope_keys(), .misread = any_bias},
      {.name = "olmo2",
       .family = "olmo3",
       .keys = with_keys(rms_and_rope_keys(),
                         {{"attention.sliding_window", "window", Kind::size, true},
                          {"attention.sliding_window_pattern", "sliding_window_pattern", Kind::layers, false, 4.0}}),
       .chosen_by = "attention.sliding_window",
       .misread = any_bias},
      {.name = "olmoe",
       .family = "olmoe",
       .keys = with_keys(rms_and_rope_keys(), expert_keys({})),
       .misread = olmoe_heads},
      {.name = "seed_oss",
       .family = "seed_oss",
       .keys = rms_and_rope_keys(),
       .tensors = {{"blk.{l}.post_attention_norm", {"blocks.{l}.ln2"}}},
       .complete = complete_attention_bias,
       .misread = all_biases_but_of_qkv},
      {.name = "ernie4_5",
       .family = "ernie4_5",
       .layout = RopeConfig::Layout::interleaved,
       .keys = rms_and_rope_keys(),
       .misread = all_biases_but_of_qkv},
      {.name = "hunyuan-dense",
       .family = "hunyuan_v1_dense",
       .keys = rms_and_rope_keys(),
       .misread = all_biases_but_of_qkv},
      {.name = "chatglm",
       .family = "glm",
       .layout = RopeConfig::Layout::interleaved,
       .keys = rms_and_rope_keys(),
       .rotary_fraction = "partial_rotary_factor",
       .tensors = gate_up(),
       .complete = complete_attention_bias,
       .misread = heads_of_other_width},
      {.name = "glm4",
       .family = "glm4",
       .layout = RopeConfig::Layout::interleaved,
       .keys = rms_and_rope_keys(),
       .rotary_fraction = "partial_rotary_factor",
       .tensors = gate_up(),
       .complete = complete_attention_bias},
      {.name = "arcee",
       .family = "arcee",
       .layout = RopeConfig::Layout::interleaved,
       .keys = rms_and_rope_keys(),
       .misread = all_biases_but_of_qkv},
      {.name = "nemotron",
       .family = "nemotron",
       .keys = with_keys(layer_norm_and_rope_keys("norm_eps"), {{"attention.key_length", "head_dim"}}),
       .ignored = {"attention.layer_norm_rms_epsilon"},  // the same number once more
       .rotary_fraction = "partial_rotary_factor",
       .misread = heads_of_other_width},
      {.name = "stablelm",
       .family = "stablelm",
       .keys = with_keys(layer_norm_and_rope_keys("layer_norm_eps"),
                         {{"use_parallel_residual", "use_parallel_residual", Kind::flag, true}}),
       .rotary_fraction = "partial_rotary_factor",
       .complete = complete_stablelm},
      {.name = "exaone4",
       .family = "exaone4",
       .keys = with_keys(rms_and_rope_keys(),
                         {{"attention.sliding_window", "window", Kind::size_or_none},
                          {"attention.sliding_window_pattern", "sliding_window_pattern", Kind::layers, false, 4.0}}),
       .complete = complete_exaone4,
       .misread = exaone4_windows},
      {.name = "granite",
       .family = "granite",
       .is_also = {"granitemoehybrid"},
       .written_for = is_dense_granite,
       .layout = RopeConfig::Layout::interleaved,
       .keys = with_keys(rms_and_rope_keys(), granite_keys()),
       .may_lack_rope = true,
       // Granite 4 without state-space layers and experts has this architecture, and keys of the models that have them.
       .ignored = {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.inner_size", "ssm.time_step_rank",
                   "expert_shared_feed_forward_length"}},
      {.name = "smollm3", .family = "smollm3", .layout = RopeConfig::Layout::interleaved, .keys = rms_and_rope_keys()},
      {.name = "command-r",
       .family = "cohere",
       .layout = RopeConfig::Layout::interleaved,
       .keys =
           with_keys(layer_norm_and_rope_keys("layer_norm_eps"), {{"logit_scale", "logit_scale", Kind::number, true}}),
       .complete = complete_command_r,
       .misread = command_r_norms},
      {.name = "cohere2",
       .family = "cohere2",
       .layout = RopeConfig::Layout::interleaved,
       .keys = with_keys(layer_norm_and_rope_keys("layer_norm_eps"),
                         {{"attention.sliding_window", "window", Kind::size, true},
                          {"attention.sliding_window_pattern", "sliding_window_pattern", Kind::size, false, 4.0},
                          {"logit_scale", "logit_scale", Kind::number, true}})},
      {.name = "starcoder2", .family = "starcoder2", .keys = layer_norm_and_rope_keys("norm_epsilon")},
      {.name = "gptneox",
       .family = "gpt_neox",
       .keys = {{"attention.layer_norm_epsilon", "layer_norm_eps", Kind::number, true},
                {"rope.freq_base", "rotary_emb_base", Kind::number},
                {"use_parallel_residual", "use_parallel_residual", Kind::flag, true}},
       .fused_qkv = true,
       .rotary_fraction = "rotary_pct"},
      {.name = "falcon",
       .family = "falcon",
       .keys = layer_norm_and_rope_keys("layer_norm_epsilon"),
       .fused_qkv = true,
       .tensors = falcon_norms(),
       .complete = complete_falcon},
      {.name = "phi2",
       .family = "phi",
       .keys = layer_norm_and_rope_keys("layer_norm_eps"),
       .rotary_fraction = "partial_rotary_factor"},
      {.name = "phi3",
       .family = "phi3",
       .keys = with_keys(rms_and_rope_keys(), {{"attention.sliding_window", "window", Kind::size_or_none}}),
       .fused_qkv = true,
       .rotary_fraction = "partial_rotary_factor",
       .tensors = gate_up()},
  };
  static const std::vector<GgufArchitecture> architectures = [] {
    std::vector<GgufArchitecture> all = own;
    for (const auto& more : {expert_architectures(),
                             latent_architectures(),
                             stream_architectures(),
                             sink_architectures(),
                             state_architectures(),
                             delta_architectures(),
                             hybrid_architectures(),
                             encoder_architectures(),
                             {xielu_architecture()}}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }();
  return architectures;
}

/// The list has both fused tensors and their parts: a file has one or the other. Files from before April 2024 have one
/// tensor for each expert.
std::vector<TensorRule> gguf_tensor_rules(const GgufArchitecture& architecture) {
  std::vector<TensorRule> rules = {
      {"token_embd", {"embed"}},
      {"position_embd", {"pos_embed"}},
      {"blk.{l}.attn_norm", {"blocks.{l}.ln1"}},
      {"blk.{l}.attn_q", {"blocks.{l}.attn.wq"}},
      {"blk.{l}.attn_k", {"blocks.{l}.attn.wk"}},
      {"blk.{l}.attn_v", {"blocks.{l}.attn.wv"}},
      {"blk.{l}.attn_qkv", {"blocks.{l}.attn.wq", "blocks.{l}.attn.wk", "blocks.{l}.attn.wv"}},
      {"blk.{l}.attn_q_norm", {"blocks.{l}.attn.q_norm"}},
      {"blk.{l}.attn_k_norm", {"blocks.{l}.attn.k_norm"}},
      {"blk.{l}.attn_sinks", {"blocks.{l}.attn.sinks"}},
      {"blk.{l}.attn_gate", {"blocks.{l}.attn.w_gate"}},
      {"blk.{l}.attn_output", {"blocks.{l}.attn.wo"}},
      {"blk.{l}.post_attention_norm", {"blocks.{l}.ln1_post"}},
      {"blk.{l}.ffn_norm", {"blocks.{l}.ln2"}},
      {"blk.{l}.ffn_gate", {"blocks.{l}.mlp.w_gate"}},
      {"blk.{l}.ffn_up", {"blocks.{l}.mlp.w_up"}},
      {"blk.{l}.ffn_down", {"blocks.{l}.mlp.w_down"}},
      {"blk.{l}.ffn_gate_inp", {"blocks.{l}.mlp.router"}},
      {"blk.{l}.exp_probs_b", {"blocks.{l}.mlp.correction"}},
      {"blk.{l}.ffn_gate.{e}", {"blocks.{l}.mlp.experts.{e}.w_gate"}},
      {"blk.{l}.ffn_up.{e}", {"blocks.{l}.mlp.experts.{e}.w_up"}},
      {"blk.{l}.ffn_down.{e}", {"blocks.{l}.mlp.experts.{e}.w_down"}},
      {"blk.{l}.ffn_gate_exps", {"blocks.{l}.mlp.experts.{e}.w_gate"}},
      {"blk.{l}.ffn_up_exps", {"blocks.{l}.mlp.experts.{e}.w_up"}},
      {"blk.{l}.ffn_down_exps", {"blocks.{l}.mlp.experts.{e}.w_down"}},
      {"blk.{l}.ffn_gate_inp_shexp", {"blocks.{l}.mlp.shared_gate"}},
      {"blk.{l}.ffn_gate_shexp", {"blocks.{l}.mlp.shared.w_gate"}},
      {"blk.{l}.ffn_up_shexp", {"blocks.{l}.mlp.shared.w_up"}},
      {"blk.{l}.ffn_down_shexp", {"blocks.{l}.mlp.shared.w_down"}},
      {"blk.{l}.post_ffw_norm", {"blocks.{l}.ln2_post"}},
      {"output_norm", {"ln_final"}},
      {"output", {"unembed"}},
  };
  for (const TensorRule& own : architecture.tensors) {  // a name without an ending replaces one with .weight
    if (own.has_ending) continue;
    std::erase_if(rules, [&](const TensorRule& rule) { return rule.stored == own.stored && rule.has_ending; });
  }
  add_tensors(rules, architecture.tensors);
  return rules;
}

const GgufArchitecture& gguf_architecture(const GgufMetadata& metadata) {
  const auto name = metadata.string("general.architecture");
  if (!name) throw BadCheckpoint(metadata.path(), "expected general.architecture, got none");
  const auto is_chosen = [&](const GgufArchitecture& architecture) {
    if (architecture.chosen_by.empty()) return false;
    const std::string key = std::string(*name) + "." + std::string(architecture.chosen_by);
    const GgufValue* const stored = metadata.find(key);
    if (stored != nullptr && stored->type == GgufType::boolean) return metadata.boolean(key) == true;
    const auto value = metadata.integer(key).value_or(0);
    return architecture.chosen_for ? value == *architecture.chosen_for : value != 0;
  };
  const GgufArchitecture* found = nullptr;
  std::string known;
  for (const GgufArchitecture& architecture : all_gguf_architectures()) {
    if (architecture.name == *name && (found == nullptr || is_chosen(architecture))) {
      found = &architecture;
    }
    if (known.ends_with(architecture.name)) continue;  // two entries of one name follow each other
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  if (found != nullptr) return *found;
  throw Unsupported(metadata.path(), "the architecture \"{}\" is not supported ({} are)", *name, known);
}

std::vector<GgufKey> gguf_keys(const GgufArchitecture& architecture) {
  std::vector<GgufKey> keys(std::begin(kSharedKeys), std::end(kSharedKeys));
  std::erase_if(keys, [&](const GgufKey& shared) {
    return std::ranges::find(architecture.keys, shared.name, &GgufKey::name) != architecture.keys.end();
  });
  return with_keys(std::move(keys), architecture.keys);
}

}  // namespace vitrine
