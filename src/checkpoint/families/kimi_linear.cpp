// Kimi Linear: delta nets with a decay for each channel (KDA), and latent attention without positions, with experts.
// Sources: Kimi Team 2025; transformers, models/kimi_linear; the published config.json files.
#include <algorithm>

#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

DeltaNetConfig read_kda(ConfigReader& c, const ModelConfig& model, std::optional<ConfigReader>& published) {
  DeltaNetConfig net;
  net.n_heads = c.size_or("linear_num_heads", 32);
  net.key_dim = c.size_or("linear_head_dim", 128);
  net.width = c.size_or("linear_conv_kernel_dim", 4);
  if (published) {
    net.n_heads = published->size_or("num_heads", net.n_heads);
    net.key_dim = published->size_or("head_dim", net.key_dim);
    net.width = published->size_or("short_conv_kernel_size", net.width);
  }
  net.n_key_heads = net.n_heads;
  net.value_dim = net.key_dim;
  net.projections = DeltaNetConfig::Projections::apart;
  net.activation = read_activation(c, "hidden_act", "silu");
  net.decay_by_channel = true;
  net.gate_rank = net.key_dim;
  net.sigmoid_gate = true;
  net.conv_parts = {net.keys(), net.keys(), net.values()};
  net.norm = *model.final_norm;
  return net;
}

/// The layers with a state: those that are not in full_attn_layers, which counts from 1.
std::vector<bool> read_kda_layers(ConfigReader& c, std::size_t n, std::optional<ConfigReader>& published) {
  const bool is_listed = published && published->has("full_attn_layers");
  std::vector<std::int64_t> full;
  if (is_listed) full = published->sizes_or_empty("full_attn_layers");
  if (published) published->ignore("kda_layers");
  return read_state_layers(c, n, [&](std::size_t i) {
    const auto layer = static_cast<std::int64_t>(i);
    if (!is_listed) return i == 0 || i % 4 != 0;
    return std::find(full.begin(), full.end(), layer + 1) == full.end();
  });
}

ModelConfig read_kimi_linear(ConfigReader& c) {
  for (const char* key : {"num_nextn_predict_layers", "pretraining_tp", "use_grouped_topk", "moe_layer_freq"}) {
    c.ignore(key);
  }
  for (const char* key : {"rope_parameters", "rope_scaling", "rope_theta"}) c.ignore(key);  // nothing is rotated
  c.expect(c.flag_or("mla_use_nope", true), "mla_use_nope", "true");
  c.expect(c.text_or("moe_router_activation_func", "sigmoid") == "sigmoid", "moe_router_activation_func", "sigmoid");
  DecoderKeys keys{.max_seq_len_key = c.has("max_position_embeddings") ? "max_position_embeddings" : "model_max_length",
                   .max_seq_len = 1048576};
  keys.norm.eps = 1e-5f;
  ModelConfig model = read_latent_decoder(c, keys, {.q_rank = std::nullopt, .pairs = false});
  model.head.tied = false;  // transformers ties no weights of this family, whatever tie_word_embeddings says
  for (LatentAttentionConfig* attention : every<LatentAttentionConfig>(model.blocks)) {
    attention->positions = false;
    attention->latent_norm.eps = 1e-6f;
  }
  const auto one_of = [&](std::string_view first, std::string_view second) { return c.has(first) ? first : second; };
  MoeConfig moe = read_grouped_experts(c, model,
                                       {.n_experts_key = "num_experts",
                                        .n_experts = 256,
                                        .top_k_key = one_of("num_experts_per_token", "num_experts_per_tok"),
                                        .top_k = 8,
                                        .d_ff = 1024,
                                        .n_shared_key = "num_shared_experts",
                                        .n_shared = 1},
                                       c.flag_or("moe_renormalize", true), 2.446);
  moe.router.groups = c.size_or("num_expert_group", moe.router.groups);
  expect_groups(c, moe, "num_experts", "num_experts_per_token", "num_expert_group");
  put_experts(model, moe, read_sparse_layers(c, model.blocks.size(), 1));
  std::optional<ConfigReader> published = c.object("linear_attn_config");
  const std::vector<bool> has_state = read_kda_layers(c, model.blocks.size(), published);
  put_mixers(model, read_kda(c, model, published), has_state);
  if (published) published->finish();
  return model;
}

}  // namespace

Family kimi_linear_family() {
  Family family = decoder_family("kimi_linear", "KimiLinearForCausalLM", read_kimi_linear);
  add_latent_attention(family);
  add_tensors(family.tensors,
              {{"{p}layers.{l}.block_sparse_moe.gate", {"blocks.{l}.mlp.router"}},
               {"{p}layers.{l}.block_sparse_moe.experts.{e}.w1", {"blocks.{l}.mlp.experts.{e}.w_gate"}},
               {"{p}layers.{l}.block_sparse_moe.experts.{e}.w3", {"blocks.{l}.mlp.experts.{e}.w_up"}},
               {"{p}layers.{l}.block_sparse_moe.experts.{e}.w2", {"blocks.{l}.mlp.experts.{e}.w_down"}},
               {"{p}layers.{l}.block_sparse_moe.shared_experts.gate_proj", {"blocks.{l}.mlp.shared.w_gate"}},
               {"{p}layers.{l}.block_sparse_moe.shared_experts.up_proj", {"blocks.{l}.mlp.shared.w_up"}},
               {"{p}layers.{l}.block_sparse_moe.shared_experts.down_proj", {"blocks.{l}.mlp.shared.w_down"}},
               {"{p}layers.{l}.block_sparse_moe.gate_proj", {"blocks.{l}.mlp.w_gate"}},
               {"{p}layers.{l}.block_sparse_moe.up_proj", {"blocks.{l}.mlp.w_up"}},
               {"{p}layers.{l}.block_sparse_moe.down_proj", {"blocks.{l}.mlp.w_down"}}});
  family.renames = {{".mlp.", ".block_sparse_moe."}};  // of dense layers in published files
  add_correction(family, "{p}layers.{l}.block_sparse_moe.gate.e_score_correction_bias");
  add_delta_net(family, "self_attn");
  for (TensorRule& rule : family.tensors) {
    if (rule.ours.front() == "blocks.{l}.linear_attn.a_log") rule.is_4d = true;
  }
  add_apart_projections(family, "self_attn");
  add_tensors(family.tensors, {{"{p}layers.{l}.self_attn.f_a_proj", {"blocks.{l}.linear_attn.w_a_down"}},
                               {"{p}layers.{l}.self_attn.f_b_proj", {"blocks.{l}.linear_attn.w_a"}},
                               {"{p}layers.{l}.self_attn.g_a_proj", {"blocks.{l}.linear_attn.w_z_down"}},
                               {"{p}layers.{l}.self_attn.g_b_proj", {"blocks.{l}.linear_attn.w_z"}}});
  return family;
}

}  // namespace vitrine
