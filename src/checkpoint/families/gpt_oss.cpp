// gpt-oss: sinks, a window in every other layer, biased experts with a clamped SwiGLU. Sources: OpenAI 2025;
// transformers, models/gpt_oss; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_gpt_oss(ConfigReader& c) {
  DecoderKeys keys{.max_seq_len = 131072, .head_dim = 64};
  keys.norm.eps = 1e-5f;
  keys.rope.theta = 150000;
  ModelConfig model = read_decoder(c, keys);
  const bool bias = c.flag_or("attention_bias", true);
  const std::vector<bool> sliding = read_sliding_layers(c, model.blocks.size(), 2);
  const auto window = c.contains("sliding_window") ? c.optional_size("sliding_window") : 128;
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    AttentionConfig& attention = *find<AttentionConfig>(model.blocks[i]);
    attention.sink = true;
    attention.qkv_bias = attention.out_bias = bias;
    if (sliding[i]) attention.window = window;
  }
  MoeConfig moe = read_experts(c, model, {.n_experts_key = "num_local_experts", .n_experts = 128, .top_k = 4});
  c.expect(c.size_or("experts_per_token", moe.top_k) == moe.top_k, "experts_per_token", "num_experts_per_tok");
  c.ignore("initial_context_length");  // the original context of rope_scaling again
  moe.router_bias = moe.expert.bias = true;
  moe.expert.clamped = ClampedSwiglu{static_cast<float>(c.positive_or("swiglu_limit", 7)),
                                     static_cast<float>(c.positive_or("swiglu_alpha", 1.702))};
  put_experts(model, moe);
  return model;
}

}  // namespace

Family gpt_oss_family() {
  Family family = decoder_family("gpt_oss", "GptOssForCausalLM", read_gpt_oss);
  add_tensors(family.tensors, {{"{p}layers.{l}.mlp.router", {"blocks.{l}.mlp.router"}}});
  add_sinks(family);
  family.experts.rows = Rows::alternating;
  add_transposed_experts(family, family.experts.gate_up, family.experts.down, family.experts.rows);
  const auto bias = [&](std::string_view stored, std::vector<std::string_view> ours) {
    TensorRule rule{stored, std::move(ours), kAsIs, Rows::alternating};
    rule.has_ending = false;
    add_tensors(family.tensors, {rule});
  };
  bias("{p}layers.{l}.mlp.experts.gate_up_proj_bias",
       {"blocks.{l}.mlp.experts.{e}.w_gate.bias", "blocks.{l}.mlp.experts.{e}.w_up.bias"});
  bias("{p}layers.{l}.mlp.experts.down_proj_bias", {"blocks.{l}.mlp.experts.{e}.w_down.bias"});
  family.balance_loss = 0.001;
  family.keys.push_back({"n_experts", "num_local_experts"});
  family.keys.push_back({"top_k", "num_experts_per_tok"});
  return family;
}

}  // namespace vitrine
