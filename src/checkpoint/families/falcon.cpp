// Falcon: the first kind (7B: one shared K/V head, one norm for both sublayers) and the second (40B and on: grouped
// heads, a norm each). Sources: Almazrouei et al. 2023; transformers, models/falcon; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

bool has_two_norms(const BlockConfig& block) { return block.sublayers.back().input == Sublayer::Input::block; }
bool has_other_norms(const BlockConfig& block) { return !has_two_norms(block); }

/// Which norms a block has, and whether it is parallel.
void read_wiring(ConfigReader& c, bool is_new, BlockConfig& block) {
  const bool is_parallel = c.flag_or("parallel_attn", true);
  c.expect(is_parallel || !is_new, "parallel_attn", "true in a new decoder");
  const std::int64_t n_norms = c.size_or("num_ln_in_parallel_attn", is_new ? 2 : 1);
  const bool has_two = n_norms == 2 && (is_new || !is_parallel);
  c.expect(has_two || n_norms == 1, "num_ln_in_parallel_attn", "1");
  if (!is_parallel && !is_new) return;
  block.sublayers.back().input = Sublayer::Input::block;
  if (!has_two) share_norm(block);
}

ModelConfig read_falcon(ConfigReader& c) {
  c.ignore("hidden_dropout");  // training
  c.ignore("ff_factor");       // ffn_hidden_size decides
  c.refuse("alibi");
  c.refuse("apply_residual_connection_post_layernorm");
  DecoderKeys keys{.tied = true,
                   .activation = "gelu",
                   .activation_key = "activation",
                   .d_ff_key = "ffn_hidden_size",
                   .d_ff_factor = 4,
                   .gated = false,
                   .eps_key = "layer_norm_epsilon",
                   .head_dim_key = "",
                   .n_kv_heads_key = "num_kv_heads"};
  keys.norm = {NormConfig::Kind::layer, 1e-5f, 0.0f, true};
  ModelConfig model = read_decoder(c, keys);

  const bool is_new = c.flag_or("new_decoder_architecture", false);
  const bool multi_query = c.flag_or("multi_query", true), bias = c.flag_or("bias", false);
  set_biases(model, bias, bias);
  for (BlockConfig& block : model.blocks) {
    read_wiring(c, is_new, block);
    AttentionConfig& attention = *find<AttentionConfig>(block);
    if (is_new) continue;
    if (!multi_query && attention.n_kv_heads != attention.n_heads) {
      throw BadCheckpoint(c.where(), "num_kv_heads: expected {} in an old decoder, got {}", attention.n_heads,
                          attention.n_kv_heads);
    }
    if (multi_query) attention.n_kv_heads = 1;
  }
  return model;
}

}  // namespace

Family falcon_family() {
  Family family = decoder_family("falcon", "FalconForCausalLM", read_falcon);
  family.prefixes = {"transformer.", ""};
  family.embedding = "{p}word_embeddings.weight";
  add_tensors(family.tensors,
              {{"{p}word_embeddings", {"embed"}},
               {"{p}h.{l}.self_attention.query_key_value",
                {"blocks.{l}.attn.wq", "blocks.{l}.attn.wk", "blocks.{l}.attn.wv"},
                kAsIs,
                Rows::by_kv_head},
               {"{p}h.{l}.self_attention.dense", {"blocks.{l}.attn.wo"}},
               {"{p}h.{l}.mlp.dense_h_to_4h", {"blocks.{l}.mlp.w_up"}},
               {"{p}h.{l}.mlp.dense_4h_to_h", {"blocks.{l}.mlp.w_down"}},
               {"{p}h.{l}.input_layernorm", {"blocks.{l}.ln1"}, kAsIs, Rows::stacked, has_other_norms},
               {"{p}h.{l}.post_attention_layernorm", {"blocks.{l}.ln2"}, kAsIs, Rows::stacked, has_other_norms},
               {"{p}h.{l}.ln_attn", {"blocks.{l}.ln1"}, kAsIs, Rows::stacked, has_two_norms},
               {"{p}h.{l}.ln_mlp", {"blocks.{l}.ln2"}, kAsIs, Rows::stacked, has_two_norms},
               {"{p}ln_f", {"ln_final"}}});
  family.keys = {{"d_model", "hidden_size"},         {"n_layers", "num_hidden_layers"},
                 {"n_heads", "num_attention_heads"}, {"n_kv_heads", "num_kv_heads"},
                 {"d_ff", "ffn_hidden_size"},        {"max_seq_len", "max_position_embeddings"}};
  return family;
}

}  // namespace vitrine
