// nanochat: norms without weights, also of the embedding and of q and k after RoPE, whose pairs turn the other way; a
// plain FFN with ReLU², a softcap of the logits. Sources: Karpathy 2025; transformers, models/nanochat.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family nanochat_family() {
  Family family = decoder_family("nanochat", "NanoChatForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{.activation = "relu2", .gated = false};
    keys.norm.weight = false;
    ModelConfig model = read_decoder(c, keys);
    read_attention_bias(c, model);
    model.embedding.norm = model.final_norm;
    model.head.softcap = read_softcap(c, "final_logit_softcapping", 15);
    for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) {
      a->rope->reversed = true;
      a->qk_norm = QkNormConfig{*model.final_norm, QkNormConfig::Over::head, true};
    }
    return model;
  });
  add_tensors(family.tensors, {{"{p}layers.{l}.mlp.fc1", {"blocks.{l}.mlp.w_up"}},
                               {"{p}layers.{l}.mlp.fc2", {"blocks.{l}.mlp.w_down"}}});
  return family;
}

}  // namespace vitrine
