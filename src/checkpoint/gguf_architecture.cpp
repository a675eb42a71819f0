#include "checkpoint/gguf_architecture.h"

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

std::vector<GgufKey> with(std::vector<GgufKey> keys, std::vector<GgufKey> more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

/// What scores are scaled by is not in the file: llama.cpp knows the 27B model by its 46 layers.
void complete_gemma2(Json& config) {
  const auto d_model = config["hidden_size"].get<std::int64_t>(),
             n_heads = config["num_attention_heads"].get<std::int64_t>();
  config["query_pre_attn_scalar"] =
      config["num_hidden_layers"] == 46 ? d_model / n_heads : config["head_dim"].get<std::int64_t>();
}

}  // namespace

/// One entry an architecture.
std::span<const GgufArchitecture> all_gguf_architectures() {
  static const std::vector<GgufArchitecture> architectures = {
      {"llama", "llama", {}, RopeConfig::Layout::interleaved, rms_and_rope_keys()},
      {"gemma", "gemma", {}, RopeConfig::Layout::halves, rms_and_rope_keys()},
      {"gemma2",
       "gemma2",
       {},
       RopeConfig::Layout::halves,
       with(rms_and_rope_keys(), {{"attention.sliding_window", "window"},
                                  {"attn_logit_softcapping", "attn_logit_softcapping", Kind::number},
                                  {"final_logit_softcapping", "final_logit_softcapping", Kind::number}}),
       false,
       complete_gemma2},
      {"gpt2",
       "gpt2",
       {},
       RopeConfig::Layout::halves,
       {{"attention.layer_norm_epsilon", "layer_norm_epsilon", Kind::number, true}},
       true},
  };
  return architectures;
}

/// Fused tensors and their parts may both be named here: a file has one or the other.
std::span<const TensorRule> gguf_tensor_rules() {
  static const std::vector<TensorRule> rules = {
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
      {"blk.{l}.post_ffw_norm.weight", {"blocks.{l}.ln2_post.weight"}},
      {"output_norm.weight", {"ln_final.weight"}},
      {"output_norm.bias", {"ln_final.bias"}},
      {"output.weight", {"unembed.weight"}},
      {"output.bias", {"unembed.bias"}},
  };
  return rules;
}

const GgufArchitecture& gguf_architecture(std::string_view name, const std::string& where) {
  std::string known;
  for (const GgufArchitecture& architecture : all_gguf_architectures()) {
    if (architecture.name == name) return architecture;
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  throw Unsupported(where, "the architecture \"{}\" is not supported ({} are)", name, known);
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
    family.tensors.assign(gguf_tensor_rules().begin(), gguf_tensor_rules().end());
    family.ignored = {"rope_freqs.weight", "blk.{l}.attn_rot_embd.weight"};  // read with the config; computed
    return family;
  }
  throw InternalError("gguf", "the architecture {} names no family", architecture.name);
}

}  // namespace vitrine
