// NomicBERT: BERT with RoPE instead of positions, gated FFNs, no biases of projections. Sources: Nussbaum et al. 2024;
// transformers, models/nomic_bert.
#include "checkpoint/hugging_face/encoder_parts.h"

namespace vitrine {

Family nomic_bert_family() {
  Family family = bert_like("nomic_bert", "NomicBertForMaskedLM", "nomic_bert.", [](ConfigReader& c) {
    ModelConfig model = read_rotary_encoder(c, {.theta = 1000,
                                                .n_types = 2,
                                                .pad_id = 0,
                                                .max_seq_len = 2048,
                                                .activation = "silu",
                                                .head_dim_key = "head_dim"});
    set_biases(model, false, false);
    return model;
  });
  family.others = {"NomicBertModel"};
  family.prefixes = {"nomic_bert.", "bert.", ""};
  add_tensors(family.tensors,
              {{"{p}emb_ln", {"ln_embed"}},
               {"{p}encoder.layers.{l}.attn.Wqkv", {"blocks.{l}.attn.wq", "blocks.{l}.attn.wk", "blocks.{l}.attn.wv"}},
               {"{p}encoder.layers.{l}.attn.out_proj", {"blocks.{l}.attn.wo"}},
               {"{p}encoder.layers.{l}.norm1", {"blocks.{l}.ln1"}},
               {"{p}encoder.layers.{l}.mlp.fc11", {"blocks.{l}.mlp.w_up"}},
               {"{p}encoder.layers.{l}.mlp.fc12", {"blocks.{l}.mlp.w_gate"}},
               {"{p}encoder.layers.{l}.mlp.fc2", {"blocks.{l}.mlp.w_down"}},
               {"{p}encoder.layers.{l}.norm2", {"blocks.{l}.ln2"}},
               {"cls.predictions.transform.dense", {"head.dense"}},
               {"cls.predictions.transform.layer_norm", {"head.ln"}},
               {"cls.predictions", {"unembed"}}});
  family.tensors.push_back({"cls.predictions.decoder", {"unembed"}});
  family.tasks = pooled_classes("{p}pooler.dense", Activation::tanh, "classifier", "{p}pooler.dense");
  return family;
}

}  // namespace vitrine
