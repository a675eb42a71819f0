// StarCoder 2: LayerNorm, biases everywhere, a plain FFN. Sources: Lozhkov et al. 2024; transformers,
// models/starcoder2; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family starcoder2_family() {
  Family family = decoder_family("starcoder2", "Starcoder2ForCausalLM", [](ConfigReader& c) {
    // residual_dropout and embedding_dropout are for training. The others repeat what the class is, or are keys of the
    // first StarCoder that this class does not read: hidden_act and norm_epsilon decide.
    for (const char* key : {"residual_dropout", "embedding_dropout", "norm_type", "mlp_type", "activation_function",
                            "layer_norm_epsilon", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"}) {
      c.ignore(key);
    }
    c.expect(c.flag_or("scale_attn_weights", true), "scale_attn_weights", "true");
    DecoderKeys keys{.max_seq_len = 4096,
                     .tied = true,
                     .activation = "gelu_pytorch_tanh",
                     .gated = false,
                     .eps_key = "norm_epsilon"};
    keys.norm = {NormConfig::Kind::layer, 1e-5f, 0.0f, true};
    ModelConfig model = read_decoder(c, keys);
    const bool bias = c.flag_or("use_bias", true);
    set_biases(model, bias, bias);
    read_window(c, model, std::nullopt);
    return model;
  });
  add_tensors(family.tensors, {{"{p}layers.{l}.mlp.c_fc", {"blocks.{l}.mlp.w_up"}},
                               {"{p}layers.{l}.mlp.c_proj", {"blocks.{l}.mlp.w_down"}}});
  return family;
}

}  // namespace vitrine
