// Falcon: the first kind (7B: one shared K/V head, one norm for both sublayers) and the second (40B and on: grouped
// heads, a norm for each). Sources: Almazrouei et al. 2023; transformers, models/falcon; the published config.json
// files.
#include <cmath>

#include "base/error.h"
#include "checkpoint/family_parts.h"

namespace vitrine {
namespace {

bool has_two_norms(const BlockConfig& block) {
  return block.residual == BlockConfig::Residual::parallel && !block.norms.ffn_reads_attn_pre;
}
bool has_no_two_norms(const BlockConfig& block) { return !has_two_norms(block); }

TensorRule norm_rule(std::string_view stored, std::string_view ours, bool (*applies)(const BlockConfig&)) {
  return {stored, {ours}, kAsIs, Rows::stacked, applies};
}

/// Which norms a block has, and whether its sublayers stand side by side.
void read_wiring(ConfigReader& c, bool is_new, BlockConfig& block) {
  const bool is_parallel = c.flag_or("parallel_attn", true);
  const std::int64_t n_norms = c.size_or("num_ln_in_parallel_attn", is_new ? 2 : 1);
  if (is_new && !is_parallel) throw Unsupported(c.where(), "parallel_attn: expected true in a new decoder");
  if (n_norms > 2 || (!is_new && is_parallel && n_norms == 2)) {
    throw Unsupported(c.where(), "num_ln_in_parallel_attn: {} is not supported here", n_norms);
  }
  if (!is_parallel) return;
  block.residual = BlockConfig::Residual::parallel;
  if (n_norms == 1) share_norm(block);
}

ModelConfig read_falcon(ConfigReader& c) {
  c.ignore("hidden_dropout");  // training
  c.ignore("ff_factor");       // ffn_hidden_size decides
  c.refuse("alibi");
  c.refuse("apply_residual_connection_post_layernorm");
  ModelConfig model;
  model.d_model = c.size("hidden_size");
  model.vocab_size = c.size("vocab_size");
  model.head.tied = c.flag_or("tie_word_embeddings", true);

  const bool is_new = c.flag_or("new_decoder_architecture", false);
  const bool bias = c.flag_or("bias", false);
  BlockConfig block;
  block.norms.attn_pre = block.norms.ffn_pre = model.final_norm =
      NormConfig{NormConfig::Kind::layer, static_cast<float>(c.number_or("layer_norm_epsilon", 1e-5)), 0.0f, true};
  read_wiring(c, is_new, block);
  AttentionConfig& attention = block.attention;
  attention.n_heads = c.size("num_attention_heads");
  const std::int64_t n_kv_heads = c.size_or("num_kv_heads", attention.n_heads);
  const bool multi_query = c.flag_or("multi_query", true);
  attention.n_kv_heads = is_new || !multi_query ? n_kv_heads : 1;
  if (!is_new && !multi_query && n_kv_heads != attention.n_heads) {
    throw BadCheckpoint(c.where(), "num_kv_heads: expected {} in an old decoder, got {}", attention.n_heads,
                        n_kv_heads);
  }
  attention.head_dim = read_head_dim(c, "", model.d_model, attention.n_heads);
  attention.score_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(attention.head_dim)));
  attention.rope = read_rope(c, attention.head_dim);
  attention.qkv_bias = attention.out_bias = bias;
  block.ffn = DenseConfig{c.size_or("ffn_hidden_size", 4 * model.d_model),
                          activation_named(c, c.text_or("activation", "gelu")), false, bias};
  model.max_seq_len = stretched_context(c.size_or("max_position_embeddings", 2048), *attention.rope);
  model.blocks.assign(static_cast<std::size_t>(c.size("num_hidden_layers", kMaxLayers)), block);
  return model;
}

}  // namespace

Family falcon_family() {
  Family family;
  family.model_type = "falcon";
  family.architectures = {"FalconForCausalLM"};
  family.read_config = read_falcon;
  family.prefixes = {"transformer.", ""};
  family.embedding = "{p}word_embeddings.weight";
  family.tensors = {
      {"{p}word_embeddings.weight", {"embed.weight"}},
      {"{p}h.{l}.self_attention.query_key_value.weight",
       {"blocks.{l}.attn.wq.weight", "blocks.{l}.attn.wk.weight", "blocks.{l}.attn.wv.weight"},
       kAsIs,
       Rows::by_kv_head},
      {"{p}h.{l}.self_attention.query_key_value.bias",
       {"blocks.{l}.attn.wq.bias", "blocks.{l}.attn.wk.bias", "blocks.{l}.attn.wv.bias"},
       kAsIs,
       Rows::by_kv_head},
      {"{p}h.{l}.self_attention.dense.weight", {"blocks.{l}.attn.wo.weight"}},
      {"{p}h.{l}.self_attention.dense.bias", {"blocks.{l}.attn.wo.bias"}},
      {"{p}h.{l}.mlp.dense_h_to_4h.weight", {"blocks.{l}.mlp.w_up.weight"}},
      {"{p}h.{l}.mlp.dense_h_to_4h.bias", {"blocks.{l}.mlp.w_up.bias"}},
      {"{p}h.{l}.mlp.dense_4h_to_h.weight", {"blocks.{l}.mlp.w_down.weight"}},
      {"{p}h.{l}.mlp.dense_4h_to_h.bias", {"blocks.{l}.mlp.w_down.bias"}},
      {"{p}ln_f.weight", {"ln_final.weight"}},
      {"{p}ln_f.bias", {"ln_final.bias"}},
      {"lm_head.weight", {"unembed.weight"}},
  };
  add_tensors(family, {norm_rule("{p}h.{l}.input_layernorm.weight", "blocks.{l}.ln1.weight", has_no_two_norms),
                       norm_rule("{p}h.{l}.input_layernorm.bias", "blocks.{l}.ln1.bias", has_no_two_norms),
                       norm_rule("{p}h.{l}.post_attention_layernorm.weight", "blocks.{l}.ln2.weight", has_no_two_norms),
                       norm_rule("{p}h.{l}.post_attention_layernorm.bias", "blocks.{l}.ln2.bias", has_no_two_norms),
                       norm_rule("{p}h.{l}.ln_attn.weight", "blocks.{l}.ln1.weight", has_two_norms),
                       norm_rule("{p}h.{l}.ln_attn.bias", "blocks.{l}.ln1.bias", has_two_norms),
                       norm_rule("{p}h.{l}.ln_mlp.weight", "blocks.{l}.ln2.weight", has_two_norms),
                       norm_rule("{p}h.{l}.ln_mlp.bias", "blocks.{l}.ln2.bias", has_two_norms)});
  family.keys = {{"d_model", "hidden_size"},         {"n_layers", "num_hidden_layers"},
                 {"n_heads", "num_attention_heads"}, {"n_kv_heads", "num_kv_heads"},
                 {"d_ff", "ffn_hidden_size"},        {"max_seq_len", "max_position_embeddings"}};
  return family;
}

}  // namespace vitrine
