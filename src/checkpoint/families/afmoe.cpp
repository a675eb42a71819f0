// AFMoE (Trinity): a gate of attention's output, norms before and after the sublayers, full layers without RoPE, dense
// layers, then experts with a correction. Sources: Arcee AI 2025; transformers, models/afmoe.
#include <cmath>

#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_afmoe(ConfigReader& c) {
  DecoderKeys keys{.max_seq_len = 16384, .head_dim = 128};
  keys.norm.eps = 1e-5f;
  ModelConfig model = read_decoder(c, keys);
  read_attention_bias(c, model);
  norm_q_and_k(model, QkNormConfig::Over::head);
  if (c.flag_or("mup_enabled", false)) {
    model.embedding.scale = static_cast<float>(std::sqrt(static_cast<double>(model.d_model)));
  }
  const auto window = c.contains("sliding_window") ? c.optional_size("sliding_window") : 1024;
  const std::vector<bool> sliding =
      read_sliding_layers(c, model.blocks.size(), c.size_or("global_attn_every_n_layers", 4));
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    for (Sublayer& sublayer : model.blocks[i].sublayers) sublayer.norms.post = sublayer.norms.pre;
    AttentionConfig& attention = *find<AttentionConfig>(model.blocks[i]);
    attention.out_gate = true;
    if (sliding[i]) attention.window = window;
    if (!sliding[i]) attention.rope.reset();
  }
  MoeConfig moe = read_experts(c, model,
                               {.n_experts = 64,
                                .top_k = 6,
                                .d_ff_key = "moe_intermediate_size",
                                .d_ff = 1408,
                                .n_shared_key = "num_shared_experts",
                                .n_shared = 2});
  moe.router = {.score = RouterConfig::Score::sigmoid, .correction = true, .eps = 1e-20f};
  moe.router.scale = static_cast<float>(c.number_or("route_scale", 1));
  const double first = c.number_or("num_dense_layers", 1);
  put_experts(model, moe, [first](std::int64_t layer) { return static_cast<double>(layer) >= first; });
  return model;
}

}  // namespace

Family afmoe_family() {
  Family family = decoder_family("afmoe", "AfmoeForCausalLM", read_afmoe);
  add_experts(family);
  add_shared_experts(family);
  add_correction(family, "{p}layers.{l}.mlp.expert_bias");
  add_tensors(family.tensors, {{"{p}layers.{l}.mlp.router.gate", {"blocks.{l}.mlp.router"}},
                               {"{p}layers.{l}.self_attn.gate_proj", {"blocks.{l}.attn.w_gate"}},
                               {"{p}layers.{l}.post_attention_layernorm", {"blocks.{l}.ln1_post"}},
                               {"{p}layers.{l}.pre_mlp_layernorm", {"blocks.{l}.ln2"}},
                               {"{p}layers.{l}.post_mlp_layernorm", {"blocks.{l}.ln2_post"}}});
  return family;
}

}  // namespace vitrine
