// Reads latent attention (MLA) of published configs.
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

/// The factor of scores of YaRN's mscale_all_dim: the square of its magnitude.
double factor_of_scores(ConfigReader& c) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    std::optional<ConfigReader> table = c.object(key);
    if (!table) continue;
    const std::string type = table->text_or("rope_type", table->text_or("type", "default"));
    const double all_dim = table->number_or("mscale_all_dim", 0);
    if (type == "default" || all_dim == 0) continue;
    const double magnitude = yarn_magnitude(table->positive("factor"), all_dim);
    return magnitude * magnitude;
  }
  return 1;
}

}  // namespace

ModelConfig read_latent_decoder(ConfigReader& c, DecoderKeys keys, const LatentKeys& latent) {
  keys.head_dim_key = "", keys.head_dim = 1, keys.n_kv_heads_key = "", keys.has_rope = false;
  ModelConfig model = read_decoder(c, keys);
  for (const char* key : {"head_dim", "qk_head_dim"}) c.ignore(key);  // they follow from the others
  LatentAttentionConfig attention;
  attention.n_heads = attention_of(model, 0)->n_heads;
  const double n_kv_heads = c.number_or("num_key_value_heads", static_cast<double>(attention.n_heads));
  c.expect(n_kv_heads == static_cast<double>(attention.n_heads), "num_key_value_heads",
           "the number of attention heads");
  attention.rank = c.size_or("kv_lora_rank", latent.rank);
  attention.q_rank = c.contains("q_lora_rank") ? c.optional_size("q_lora_rank") : latent.q_rank;
  attention.nope_dim = c.size_or("qk_nope_head_dim", latent.nope_dim);
  attention.head_value_dim = c.has("v_head_dim") || latent.value_dim
                                 ? c.size_or("v_head_dim", latent.value_dim.value_or(0))
                                 : read_head_dim(c, "v_head_dim", model.d_model, attention.n_heads);
  attention.rope = read_rope(c, c.size_or("qk_rope_head_dim", latent.rope_dim), model.max_seq_len, keys.rope);
  expect_pairs(c, attention.rope, "qk_rope_head_dim");
  model.max_seq_len = stretched_context(model.max_seq_len, attention.rope);
  attention.rope_pairs = latent.pairs && c.flag_or("rope_interleave", true);
  attention.latent_norm = {NormConfig::Kind::rms, 1e-6f, 0.0f, false};
  attention.down_bias = attention.out_bias = c.flag_or("attention_bias", false);
  const double scale = 1 / std::sqrt(static_cast<double>(attention.query_dim()));
  attention.score_scale = static_cast<float>(scale * factor_of_scores(c));
  set_row(attention);
  for (BlockConfig& block : model.blocks) block.sublayers.front().what = attention;
  return model;
}

void add_latent_attention(Family& family) {
  add_tensors(family.tensors, {{"{p}layers.{l}.self_attn.q_a_proj", {"blocks.{l}.attn.wq_a"}},
                               {"{p}layers.{l}.self_attn.q_a_layernorm", {"blocks.{l}.attn.q_latent_norm"}},
                               {"{p}layers.{l}.self_attn.q_b_proj", {"blocks.{l}.attn.wq_b"}},
                               {"{p}layers.{l}.self_attn.kv_a_proj_with_mqa", {"blocks.{l}.attn.wkv_a"}},
                               {"{p}layers.{l}.self_attn.kv_a_layernorm", {"blocks.{l}.attn.kv_latent_norm"}},
                               {"{p}layers.{l}.self_attn.kv_b_proj", {"blocks.{l}.attn.wkv_b"}}});
  const Family::Key keys[] = {{"kv_rank", "kv_lora_rank"},
                              {"q_rank", "q_lora_rank"},
                              {"nope_dim", "qk_nope_head_dim"},
                              {"rope_dim", "qk_rope_head_dim"},
                              {"value_dim", "v_head_dim"}};
  family.keys.insert(family.keys.end(), std::begin(keys), std::end(keys));
}

ModelConfig read_deepseek_v3(ConfigReader& c, DecoderKeys keys, const LatentKeys& latent, const ExpertKeys& experts,
                             std::int64_t first_sparse, double scale) {
  for (const char* key : {"num_nextn_predict_layers", "num_mtp_layers"}) c.ignore(key);  // not run
  for (const char* key : {"aux_loss_alpha", "ep_size", "seq_aux"}) c.ignore(key);        // training
  c.expect(c.number_or("moe_layer_freq", 1) == 1, "moe_layer_freq", "1");
  ModelConfig model = read_latent_decoder(c, keys, latent);
  const MoeConfig moe = read_grouped_experts(c, model, experts, true, scale);
  const std::vector<std::string> kinds = c.texts_or_empty("mlp_layer_types");
  if (kinds.empty()) {
    put_experts(model, moe, read_first_sparse_layer(c, first_sparse));
    return model;
  }
  c.ignore("first_k_dense_replace");
  if (kinds.size() != model.blocks.size()) {
    throw BadCheckpoint(c.where(), "mlp_layer_types: expected {} layers, got {}", model.blocks.size(), kinds.size());
  }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] != "sparse" && kinds[i] != "dense") {
      throw Unsupported(c.where(), "mlp_layer_types: expected dense or sparse, got \"{}\"", kinds[i]);
    }
    if (kinds[i] == "sparse") model.blocks[i].sublayers.back().what = moe;
  }
  return model;
}

}  // namespace vitrine
