#include "checkpoint/families/families.h"

#include "base/error.h"

namespace vitrine {

std::span<const Family> all_families() {
  static const std::vector<Family> families = {gemma_family(), gemma2_family(), gpt2_family(), llama_family()};
  return families;
}

void use_decoder_names(Family& family) {
  family.prefixes = {"model.", ""};
  family.embedding = "{p}embed_tokens.weight";
  family.tensors = {
      {"{p}embed_tokens.weight", {"embed.weight"}},
      {"{p}layers.{l}.input_layernorm.weight", {"blocks.{l}.ln1.weight"}},
      {"{p}layers.{l}.self_attn.q_proj.weight", {"blocks.{l}.attn.wq.weight"}},
      {"{p}layers.{l}.self_attn.q_proj.bias", {"blocks.{l}.attn.wq.bias"}},
      {"{p}layers.{l}.self_attn.k_proj.weight", {"blocks.{l}.attn.wk.weight"}},
      {"{p}layers.{l}.self_attn.k_proj.bias", {"blocks.{l}.attn.wk.bias"}},
      {"{p}layers.{l}.self_attn.v_proj.weight", {"blocks.{l}.attn.wv.weight"}},
      {"{p}layers.{l}.self_attn.v_proj.bias", {"blocks.{l}.attn.wv.bias"}},
      {"{p}layers.{l}.self_attn.o_proj.weight", {"blocks.{l}.attn.wo.weight"}},
      {"{p}layers.{l}.self_attn.o_proj.bias", {"blocks.{l}.attn.wo.bias"}},
      {"{p}layers.{l}.mlp.gate_proj.weight", {"blocks.{l}.mlp.w_gate.weight"}},
      {"{p}layers.{l}.mlp.gate_proj.bias", {"blocks.{l}.mlp.w_gate.bias"}},
      {"{p}layers.{l}.mlp.up_proj.weight", {"blocks.{l}.mlp.w_up.weight"}},
      {"{p}layers.{l}.mlp.up_proj.bias", {"blocks.{l}.mlp.w_up.bias"}},
      {"{p}layers.{l}.mlp.down_proj.weight", {"blocks.{l}.mlp.w_down.weight"}},
      {"{p}layers.{l}.mlp.down_proj.bias", {"blocks.{l}.mlp.w_down.bias"}},
      {"{p}norm.weight", {"ln_final.weight"}},
      {"lm_head.weight", {"unembed.weight"}},
  };
  family.keys = {{"d_model", "hidden_size"},         {"n_layers", "num_hidden_layers"},
                 {"n_heads", "num_attention_heads"}, {"n_kv_heads", "num_key_value_heads"},
                 {"d_ff", "intermediate_size"},      {"max_seq_len", "max_position_embeddings"},
                 {"window", "sliding_window"}};
}

std::int64_t read_head_dim(ConfigReader& config, std::string_view key, std::int64_t d_model, std::int64_t n_heads) {
  if (!key.empty() && config.has(key)) return config.size(key);
  if (!key.empty()) config.ignore(key);
  if (d_model % n_heads != 0) {
    throw BadCheckpoint(config.where(),
                        "d_model must be a multiple of the number of heads where no head_dim is given, "
                        "got {} and {}",
                        d_model, n_heads);
  }
  return d_model / n_heads;
}

std::optional<float> read_softcap(ConfigReader& config, std::string_view key, double otherwise) {
  if (!config.stands(key)) return static_cast<float>(otherwise);
  const std::optional<double> cap = config.optional_number(key);
  return cap ? std::optional(static_cast<float>(*cap)) : std::nullopt;
}

}  // namespace vitrine
