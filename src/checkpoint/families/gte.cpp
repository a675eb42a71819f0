// GTE: BERT with RoPE instead of positions, and gated FFNs. Sources: Zhang et al. 2024; transformers, models/gte.
#include "checkpoint/hugging_face/encoder_parts.h"

namespace vitrine {

Family gte_family() {
  Family family = bert_like("gte", "GteForMaskedLM", "gte.", [](ConfigReader& c) {
    ModelConfig model = read_rotary_encoder(c, {.theta = 160000, .n_types = 1, .pad_id = 1});
    set_biases(model, true, false);
    for (DenseConfig* dense : every<DenseConfig>(model.blocks)) dense->down_bias = true;
    model.head.transform->activation = Activation::gelu_erf;
    return model;
  });
  family.others = {"GteModel"};
  family.prefixes = {"gte.", "new.", ""};
  add_tensors(
      family.tensors,
      {{"{p}encoder.layer.{l}.attention.qkv_proj", {"blocks.{l}.attn.wq", "blocks.{l}.attn.wk", "blocks.{l}.attn.wv"}},
       {"{p}encoder.layer.{l}.attention.o_proj", {"blocks.{l}.attn.wo"}},
       {"{p}encoder.layer.{l}.attn_ln", {"blocks.{l}.ln1"}},
       {"{p}encoder.layer.{l}.mlp.up_gate_proj", {"blocks.{l}.mlp.w_up", "blocks.{l}.mlp.w_gate"}},
       {"{p}encoder.layer.{l}.mlp.down_proj", {"blocks.{l}.mlp.w_down"}},
       {"{p}encoder.layer.{l}.mlp_ln", {"blocks.{l}.ln2"}},
       {"lm_head.dense", {"head.dense"}},
       {"lm_head.norm", {"head.ln"}},
       {"lm_head.decoder", {"unembed"}}});
  family.tasks = pooled_classes("{p}pooler.dense", Activation::tanh, "classifier", "{p}pooler.dense");
  return family;
}

}  // namespace vitrine
