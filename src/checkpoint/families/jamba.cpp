// Jamba: Mamba with norms of its steps, B and C; attention without positions in some layers, experts in others.
// Sources: AI21 2024; transformers, models/jamba; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {
namespace {

ModelConfig read_jamba(ConfigReader& c) {
  DecoderKeys keys{.max_seq_len = 262144, .head_dim_key = ""};
  keys.has_rope = false;
  ModelConfig model = read_decoder(c, keys);
  ignore_mamba_keys(c);
  c.ignore("sliding_window");  // in published files; always null
  MambaConfig mamba;
  mamba.channels = c.size_or("mamba_expand", 2) * model.d_model;
  mamba.d_state = c.size_or("mamba_d_state", 16);
  mamba.width = c.size_or("mamba_d_conv", 4);
  mamba.dt_rank = c.size_or_auto("mamba_dt_rank", (model.d_model + 15) / 16);
  mamba.activation = read_activation(c, "hidden_act", "silu");
  mamba.conv_bias = c.flag_or("mamba_conv_bias", true);
  mamba.bias = c.flag_or("mamba_proj_bias", false);
  mamba.norm = *model.final_norm;
  const auto at = [&](const char* key, double otherwise) {
    return static_cast<std::int64_t>(c.number_or(key, otherwise));
  };
  const std::int64_t period = c.size_or("attn_layer_period", 8), offset = at("attn_layer_offset", 4);
  c.expect(offset >= 0 && offset < period, "attn_layer_offset", "a whole number below attn_layer_period");
  const auto otherwise = [=](std::size_t i) { return static_cast<std::int64_t>(i) % period != offset; };
  put_mixers(model, mamba, read_state_layers(c, model.blocks.size(), otherwise, "mamba"));

  const std::int64_t expert_period = c.size_or("expert_layer_period", 2), expert_offset = at("expert_layer_offset", 1);
  c.expect(expert_offset >= 0 && expert_offset < expert_period, "expert_layer_offset",
           "a whole number below expert_layer_period");
  MoeConfig moe = read_experts(c, model, {.n_experts = 16, .top_k = 2});
  moe.renormalize = false;
  if (moe.n_experts == 1) return model;
  put_experts(model, moe, [=](std::int64_t layer) { return layer % expert_period == expert_offset; });
  return model;
}

}  // namespace

Family jamba_family() {
  Family family = decoder_family("jamba", "JambaForCausalLM", read_jamba);
  add_mamba(family, "mamba");
  add_feed_forward(family);
  add_tensors(family.tensors,
              {{"{p}layers.{l}.pre_ff_layernorm", {"blocks.{l}.ln2"}},
               {"{p}final_layernorm", {"ln_final"}},
               {"{p}layers.{l}.feed_forward.experts.{e}.gate_proj", {"blocks.{l}.mlp.experts.{e}.w_gate"}},
               {"{p}layers.{l}.feed_forward.experts.{e}.up_proj", {"blocks.{l}.mlp.experts.{e}.w_up"}},
               {"{p}layers.{l}.feed_forward.experts.{e}.down_proj", {"blocks.{l}.mlp.experts.{e}.w_down"}}});
  family.balance_loss = 0.001;
  family.tasks = decoder_classes(0);
  return family;
}

}  // namespace vitrine
