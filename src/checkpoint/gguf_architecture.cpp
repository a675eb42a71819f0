#include "checkpoint/gguf_architecture.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {
namespace {

using Kind = GgufKey::Kind;

constexpr GgufKey kSharedKeys[] = {
    {"context_length", "max_seq_len", Kind::size, true},   {"embedding_length", "d_model", Kind::size, true},
    {"block_count", "n_layers", Kind::size, true},         {"feed_forward_length", "d_ff", Kind::size, true},
    {"attention.head_count", "n_heads", Kind::size, true},
};

const std::vector<GgufKey>& rms_and_rope_keys() {
  static const std::vector<GgufKey> keys = {
      {"attention.head_count_kv", "n_kv_heads"},
      {"attention.key_length", "head_dim"},
      {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Kind::number, true},
      {"rope.freq_base", "rope_theta", Kind::number},
  };
  return keys;
}

std::vector<GgufKey> layer_norm_and_rope_keys(std::string_view eps, std::string_view theta) {
  return {{"attention.layer_norm_epsilon", eps, Kind::number, true}, {"rope.freq_base", theta, Kind::number}};
}

std::vector<GgufKey> with(std::vector<GgufKey> keys, std::vector<GgufKey> more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

/// Keys of a mixture of experts; what an expert's width is called differs.
std::vector<GgufKey> expert_keys(std::vector<GgufKey> more) {
  return with({{"expert_count", "n_experts", Kind::size, true}, {"expert_used_count", "top_k", Kind::size, true}},
              std::move(more));
}

/// What scores are scaled by is not in the file: llama.cpp knows the 27B model by its 46 layers.
void complete_gemma2(Json& config, const StoredTensors&) {
  const auto d_model = config["hidden_size"].get<std::int64_t>(),
             n_heads = config["num_attention_heads"].get<std::int64_t>();
  config["query_pre_attn_scalar"] =
      config["num_hidden_layers"] == 46 ? d_model / n_heads : config["head_dim"].get<std::int64_t>();
}

/// As for Gemma 2: here the 27B model has 62 layers. Without a window's size no layer has a window.
void complete_gemma3(Json& config, const StoredTensors&) {
  const auto d_model = config["hidden_size"].get<std::int64_t>(),
             n_heads = config["num_attention_heads"].get<std::int64_t>();
  config["query_pre_attn_scalar"] =
      config["num_hidden_layers"] == 62 ? d_model / n_heads : config["head_dim"].get<std::int64_t>();
  if (!config.contains("sliding_window")) config["sliding_window_pattern"] = 1;
}

/// A second norm is only in the newer decoders; so are groups of heads.
void complete_falcon(Json& config, const StoredTensors& tensors) {
  const bool two_norms = tensors.all.contains("blk.0.attn_norm_2.weight");
  const bool is_new = two_norms || (config.contains("num_kv_heads") && config["num_kv_heads"] != 1);
  config["new_decoder_architecture"] = is_new;
  config["num_ln_in_parallel_attn"] = two_norms ? 2 : 1;
}

bool has_two_norms(const BlockConfig& block) { return block.norms.ffn_pre.has_value(); }
bool has_one_norm(const BlockConfig& block) { return !has_two_norms(block); }

/// Falcon's norms are named after the FFN's where there are two.
std::vector<TensorRule> falcon_norms() {
  const auto rule = [](std::string_view stored, std::string_view ours, bool (*applies)(const BlockConfig&)) {
    return TensorRule{stored, {ours}, false, Rows::stacked, applies};
  };
  return {rule("blk.{l}.attn_norm.weight", "blocks.{l}.ln1.weight", has_one_norm),
          rule("blk.{l}.attn_norm.bias", "blocks.{l}.ln1.bias", has_one_norm),
          rule("blk.{l}.attn_norm.weight", "blocks.{l}.ln2.weight", has_two_norms),
          rule("blk.{l}.attn_norm.bias", "blocks.{l}.ln2.bias", has_two_norms),
          rule("blk.{l}.attn_norm_2.weight", "blocks.{l}.ln1.weight", has_two_norms),
          rule("blk.{l}.attn_norm_2.bias", "blocks.{l}.ln1.bias", has_two_norms)};
}

/// Older files do not say how wide experts are: the chosen ones are together as wide as the shared one.
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

/// llama.cpp divides the chosen weights by their sum, always.
void complete_qwen3moe(Json& config, const StoredTensors&) { config["norm_topk_prob"] = true; }

}  // namespace

/// One entry an architecture; two where experts make another family of it.
std::span<const GgufArchitecture> all_gguf_architectures() {
  static const std::vector<GgufArchitecture> architectures = {
      {.name = "llama",
       .family = "llama",
       .is_also = {"mistral"},
       .layout = RopeConfig::Layout::interleaved,
       .keys = rms_and_rope_keys()},
      {.name = "llama",
       .family = "mixtral",
       .layout = RopeConfig::Layout::interleaved,
       .keys = with(rms_and_rope_keys(), expert_keys({})),
       .has_experts = true},
      {.name = "gemma", .family = "gemma", .keys = rms_and_rope_keys()},
      {.name = "gemma2",
       .family = "gemma2",
       .keys = with(rms_and_rope_keys(), {{"attention.sliding_window", "window"},
                                          {"attn_logit_softcapping", "attn_logit_softcapping", Kind::number},
                                          {"final_logit_softcapping", "final_logit_softcapping", Kind::number}}),
       .complete = complete_gemma2},
      {.name = "gpt2",
       .family = "gpt2",
       .keys = {{"attention.layer_norm_epsilon", "layer_norm_epsilon", Kind::number, true}},
       .fused_qkv = true},
      {.name = "qwen2", .family = "qwen2", .keys = rms_and_rope_keys()},
      {.name = "qwen3", .family = "qwen3", .keys = rms_and_rope_keys()},
      {.name = "qwen2moe",
       .family = "qwen2_moe",
       .keys = with(rms_and_rope_keys(),
                    expert_keys({{"expert_feed_forward_length", "d_ff_expert"},
                                 {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"}})),
       .has_experts = true,
       .complete = complete_qwen2moe},
      {.name = "qwen3moe",
       .family = "qwen3_moe",
       .keys =
           with(rms_and_rope_keys(), expert_keys({{"expert_feed_forward_length", "d_ff_expert", Kind::size, true}})),
       .has_experts = true,
       .complete = complete_qwen3moe},
      {.name = "gemma3",
       .family = "gemma3_text",
       .keys = with(rms_and_rope_keys(),
                    {{"attention.sliding_window", "window", Kind::size_or_none},
                     {"attention.sliding_window_pattern", "sliding_window_pattern", Kind::size, false, 6.0},
                     {"rope.freq_base_swa", "rope_local_base_freq", Kind::number, false, 10000.0},
                     {"final_logit_softcapping", "final_logit_softcapping", Kind::number}}),
       .complete = complete_gemma3},
      {.name = "olmo2", .family = "olmo2", .keys = rms_and_rope_keys()},
      {.name = "granite",
       .family = "granite",
       .layout = RopeConfig::Layout::interleaved,
       .keys = with(rms_and_rope_keys(), {{"attention.scale", "attention_multiplier", Kind::number, true},
                                          {"embedding_scale", "embedding_multiplier", Kind::number, true},
                                          {"residual_scale", "residual_multiplier", Kind::number, true},
                                          {"logit_scale", "logits_scaling", Kind::number, true}}),
       .may_lack_rope = true,
       // Granite 4 without states and experts is of this architecture: keys of its relatives stand in its files.
       .ignored = {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.inner_size", "ssm.time_step_rank",
                   "expert_shared_feed_forward_length"}},
      {.name = "smollm3", .family = "smollm3", .layout = RopeConfig::Layout::interleaved, .keys = rms_and_rope_keys()},
      {.name = "command-r",
       .family = "cohere",
       .layout = RopeConfig::Layout::interleaved,
       .keys = with(layer_norm_and_rope_keys("layer_norm_eps", "rope_theta"),
                    {{"attention.head_count_kv", "n_kv_heads"}, {"logit_scale", "logit_scale", Kind::number, true}}),
       .complete = complete_command_r},
      {.name = "cohere2",
       .family = "cohere2",
       .layout = RopeConfig::Layout::interleaved,
       .keys = with(layer_norm_and_rope_keys("layer_norm_eps", "rope_theta"),
                    {{"attention.head_count_kv", "n_kv_heads"},
                     {"attention.sliding_window", "window", Kind::size, true},
                     {"attention.sliding_window_pattern", "sliding_window_pattern", Kind::size, false, 4.0},
                     {"logit_scale", "logit_scale", Kind::number, true}})},
      {.name = "starcoder2",
       .family = "starcoder2",
       .keys =
           with(layer_norm_and_rope_keys("norm_epsilon", "rope_theta"), {{"attention.head_count_kv", "n_kv_heads"}})},
      {.name = "gptneox",
       .family = "gpt_neox",
       .keys = with(layer_norm_and_rope_keys("layer_norm_eps", "rotary_emb_base"),
                    {{"use_parallel_residual", "use_parallel_residual", Kind::flag, true}}),
       .fused_qkv = true,
       .rotary_fraction = "rotary_pct"},
      {.name = "falcon",
       .family = "falcon",
       .keys = with(layer_norm_and_rope_keys("layer_norm_epsilon", "rope_theta"),
                    {{"attention.head_count_kv", "n_kv_heads"}}),
       .fused_qkv = true,
       .tensors = falcon_norms(),
       .complete = complete_falcon},
      {.name = "phi2",
       .family = "phi",
       .keys =
           with(layer_norm_and_rope_keys("layer_norm_eps", "rope_theta"), {{"attention.head_count_kv", "n_kv_heads"}}),
       .rotary_fraction = "partial_rotary_factor"},
      {.name = "phi3",
       .family = "phi3",
       .keys = with(rms_and_rope_keys(), {{"attention.sliding_window", "window", Kind::size_or_none}}),
       .fused_qkv = true,
       .rotary_fraction = "partial_rotary_factor",
       .tensors = {{"blk.{l}.ffn_up.weight", {"blocks.{l}.mlp.w_gate.weight", "blocks.{l}.mlp.w_up.weight"}}}},
  };
  return architectures;
}

/// Fused tensors and their parts may both be named here: a file has one or the other. Experts one by one are in files
/// from before April 2024.
std::vector<TensorRule> gguf_tensor_rules(const GgufArchitecture& architecture) {
  std::vector<TensorRule> rules = {
      {"token_embd.weight", {"embed.weight"}},
      {"position_embd.weight", {"pos_embed.weight"}},
      {"blk.{l}.attn_norm.weight", {"blocks.{l}.ln1.weight"}},
      {"blk.{l}.attn_norm.bias", {"blocks.{l}.ln1.bias"}},
      {"blk.{l}.attn_q.weight", {"blocks.{l}.attn.wq.weight"}},
      {"blk.{l}.attn_q.bias", {"blocks.{l}.attn.wq.bias"}},
      {"blk.{l}.attn_k.weight", {"blocks.{l}.attn.wk.weight"}},
      {"blk.{l}.attn_k.bias", {"blocks.{l}.attn.wk.bias"}},
      {"blk.{l}.attn_v.weight", {"blocks.{l}.attn.wv.weight"}},
      {"blk.{l}.attn_v.bias", {"blocks.{l}.attn.wv.bias"}},
      {"blk.{l}.attn_qkv.weight",
       {"blocks.{l}.attn.wq.weight", "blocks.{l}.attn.wk.weight", "blocks.{l}.attn.wv.weight"}},
      {"blk.{l}.attn_qkv.bias", {"blocks.{l}.attn.wq.bias", "blocks.{l}.attn.wk.bias", "blocks.{l}.attn.wv.bias"}},
      {"blk.{l}.attn_q_norm.weight", {"blocks.{l}.attn.q_norm.weight"}},
      {"blk.{l}.attn_k_norm.weight", {"blocks.{l}.attn.k_norm.weight"}},
      {"blk.{l}.attn_output.weight", {"blocks.{l}.attn.wo.weight"}},
      {"blk.{l}.attn_output.bias", {"blocks.{l}.attn.wo.bias"}},
      {"blk.{l}.post_attention_norm.weight", {"blocks.{l}.ln1_post.weight"}},
      {"blk.{l}.ffn_norm.weight", {"blocks.{l}.ln2.weight"}},
      {"blk.{l}.ffn_norm.bias", {"blocks.{l}.ln2.bias"}},
      {"blk.{l}.ffn_gate.weight", {"blocks.{l}.mlp.w_gate.weight"}},
      {"blk.{l}.ffn_gate.bias", {"blocks.{l}.mlp.w_gate.bias"}},
      {"blk.{l}.ffn_up.weight", {"blocks.{l}.mlp.w_up.weight"}},
      {"blk.{l}.ffn_up.bias", {"blocks.{l}.mlp.w_up.bias"}},
      {"blk.{l}.ffn_down.weight", {"blocks.{l}.mlp.w_down.weight"}},
      {"blk.{l}.ffn_down.bias", {"blocks.{l}.mlp.w_down.bias"}},
      {"blk.{l}.ffn_gate_inp.weight", {"blocks.{l}.mlp.router.weight"}},
      {"blk.{l}.ffn_gate.{e}.weight", {"blocks.{l}.mlp.experts.{e}.w_gate.weight"}},
      {"blk.{l}.ffn_up.{e}.weight", {"blocks.{l}.mlp.experts.{e}.w_up.weight"}},
      {"blk.{l}.ffn_down.{e}.weight", {"blocks.{l}.mlp.experts.{e}.w_down.weight"}},
      {"blk.{l}.ffn_gate_exps.weight", {"blocks.{l}.mlp.experts.{e}.w_gate.weight"}},
      {"blk.{l}.ffn_up_exps.weight", {"blocks.{l}.mlp.experts.{e}.w_up.weight"}},
      {"blk.{l}.ffn_down_exps.weight", {"blocks.{l}.mlp.experts.{e}.w_down.weight"}},
      {"blk.{l}.ffn_gate_inp_shexp.weight", {"blocks.{l}.mlp.shared_gate.weight"}},
      {"blk.{l}.ffn_gate_shexp.weight", {"blocks.{l}.mlp.shared.w_gate.weight"}},
      {"blk.{l}.ffn_up_shexp.weight", {"blocks.{l}.mlp.shared.w_up.weight"}},
      {"blk.{l}.ffn_down_shexp.weight", {"blocks.{l}.mlp.shared.w_down.weight"}},
      {"blk.{l}.post_ffw_norm.weight", {"blocks.{l}.ln2_post.weight"}},
      {"output_norm.weight", {"ln_final.weight"}},
      {"output_norm.bias", {"ln_final.bias"}},
      {"output.weight", {"unembed.weight"}},
      {"output.bias", {"unembed.bias"}},
  };
  for (const TensorRule& own : architecture.tensors) {
    std::erase_if(rules, [&](const TensorRule& common) {
      return std::find_first_of(common.ours.begin(), common.ours.end(), own.ours.begin(), own.ours.end()) !=
             common.ours.end();
    });
  }
  rules.insert(rules.end(), architecture.tensors.begin(), architecture.tensors.end());
  return rules;
}

const GgufArchitecture& gguf_architecture(const GgufMetadata& metadata) {
  const auto name = metadata.string("general.architecture");
  if (!name) throw BadCheckpoint(metadata.path(), "expected general.architecture, got none");
  const bool has_experts = metadata.integer(std::string(*name) + ".expert_count").value_or(0) != 0;
  const GgufArchitecture* found = nullptr;
  std::string known;
  for (const GgufArchitecture& architecture : all_gguf_architectures()) {
    if (architecture.name == *name && (found == nullptr || architecture.has_experts == has_experts)) {
      found = &architecture;
    }
    if (known.ends_with(architecture.name)) continue;  // its second entry stands beside the first
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  if (found != nullptr) return *found;
  throw Unsupported(metadata.path(), "the architecture \"{}\" is not supported ({} are)", *name, known);
}

std::vector<GgufKey> gguf_keys(const GgufArchitecture& architecture) {
  return with({std::begin(kSharedKeys), std::end(kSharedKeys)}, architecture.keys);
}

Family gguf_family(const GgufArchitecture& architecture) {
  for (const Family& known : all_families()) {
    if (known.model_type != architecture.family) continue;
    Family family = known;
    family.prefixes = {""};
    family.embedding = "token_embd.weight";
    family.tensors = gguf_tensor_rules(architecture);
    family.ignored = {"rope_freqs.weight", kRopeWithin, kRopeBeyond,  // read with the config
                      "blk.{l}.attn_rot_embd.weight"};                // computed
    return family;
  }
  throw InternalError("gguf", "the architecture {} names no family", architecture.name);
}

}  // namespace vitrine
