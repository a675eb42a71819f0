// StarCoder 2: LayerNorm, biases everywhere, a plain FFN. Sources: Lozhkov et al. 2024; transformers,
// models/starcoder2; the published config.json files.
#include "base/error.h"
#include "checkpoint/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_starcoder2(ConfigReader& c) {
  // dropout is for training; the others say again what the class is, or are the first StarCoder's words, which this
  // class does not read: hidden_act and norm_epsilon stand beside
  for (const char* key : {"residual_dropout", "embedding_dropout", "norm_type", "mlp_type", "activation_function",
                          "layer_norm_epsilon", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"}) {
    c.ignore(key);
  }
  if (!c.flag_or("scale_attn_weights", true)) throw Unsupported(c.where(), "scale_attn_weights: expected true");
  DecoderKeys keys{.max_seq_len = 4096, .tied = true, .activation = "gelu_pytorch_tanh", .eps_key = "norm_epsilon"};
  keys.norm = {NormConfig::Kind::layer, 1e-5f, 0.0f, true};
  ModelConfig model = read_decoder(c, keys);
  const bool bias = c.flag_or("use_bias", true);
  for (BlockConfig& block : model.blocks) {
    block.attention().qkv_bias = block.attention().out_bias = bias;
    auto& ffn = std::get<DenseConfig>(block.ffn);
    ffn.gated = false;
    ffn.bias = bias;
  }
  read_window(c, model, std::nullopt);
  return model;
}

}  // namespace

Family starcoder2_family() {
  Family family;
  family.model_type = "starcoder2";
  family.architectures = {"Starcoder2ForCausalLM"};
  family.read_config = read_starcoder2;
  use_decoder_names(family);
  add_pre_norms(family);
  add_tensors(family, {{"{p}layers.{l}.mlp.c_fc.weight", {"blocks.{l}.mlp.w_up.weight"}},
                       {"{p}layers.{l}.mlp.c_fc.bias", {"blocks.{l}.mlp.w_up.bias"}},
                       {"{p}layers.{l}.mlp.c_proj.weight", {"blocks.{l}.mlp.w_down.weight"}},
                       {"{p}layers.{l}.mlp.c_proj.bias", {"blocks.{l}.mlp.w_down.bias"}}});
  return family;
}

}  // namespace vitrine
