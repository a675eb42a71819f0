// Apertus: norms of q and k, a plain FFN with xIELU. Sources: Apertus Team 2025; Huang & Schlag 2024 (xIELU);
// transformers, models/apertus; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

/// A number of the activation; the constants have no dimension.
TensorRule xielu_rule(std::string_view stored, std::string_view ours, bool is_scalar) {
  TensorRule rule{stored, {ours}};
  rule.has_ending = false;
  rule.is_scalar = is_scalar;
  return rule;
}

}  // namespace

Family apertus_family() {
  Family family = decoder_family("apertus", "ApertusForCausalLM", [](ConfigReader& c) {
    for (const char* key : {"post_norm", "mlp_bias"}) c.refuse(key);  // in published files
    c.expect(c.flag_or("qk_norm", true), "qk_norm", "true");
    c.expect(c.text_or("hidden_act", "xielu") == "xielu", "hidden_act", "xielu");
    DecoderKeys keys{.max_seq_len = 65536, .activation_key = "", .gated = false};
    keys.norm.eps = 1e-5f;
    keys.rope.theta = 12e6;
    keys.rope.scaling = Llama3Scaling{8, 1, 4, 8192};
    ModelConfig model = read_decoder(c, keys);
    read_attention_bias(c, model);
    norm_q_and_k(model, QkNormConfig::Over::head);
    for (DenseConfig* ffn : every<DenseConfig>(model.blocks)) ffn->xielu = true;
    return model;
  });
  add_tensors(family.tensors,
              {{"{p}layers.{l}.attention_layernorm", {"blocks.{l}.ln1"}},
               {"{p}layers.{l}.feedforward_layernorm", {"blocks.{l}.ln2"}},
               xielu_rule("{p}layers.{l}.mlp.act_fn.alpha_p", "blocks.{l}.mlp.xielu_alpha_p.weight", false),
               xielu_rule("{p}layers.{l}.mlp.act_fn.alpha_n", "blocks.{l}.mlp.xielu_alpha_n.weight", false),
               xielu_rule("{p}layers.{l}.mlp.act_fn.beta", "blocks.{l}.mlp.xielu_beta.weight", true),
               xielu_rule("{p}layers.{l}.mlp.act_fn.eps", "blocks.{l}.mlp.xielu_eps.weight", true)});
  return family;
}

}  // namespace vitrine
