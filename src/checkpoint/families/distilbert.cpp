// DistilBERT alone, or with its head for masked tokens. Sources: Sanh et al. 2019; transformers, models/distilbert.
#include "checkpoint/hugging_face/encoder_parts.h"

namespace vitrine {
namespace {

ModelConfig read_distilbert(ConfigReader& c) {
  for (const char* key : {"attention_dropout", "dropout", "qa_dropout", "seq_classif_dropout", "initializer_range",
                          "tie_weights_", "sinusoidal_pos_embds"}) {
    c.ignore(key);  // training; the table of positions is stored in any case
  }
  return read_encoder(c, {"dim", "n_layers", "n_heads", "hidden_dim", "activation", 0, false}, 1e-12,
                      read_activation(c, "activation", "gelu"));
}

}  // namespace

Family distilbert_family() {
  Family family = bert_like("distilbert", "DistilBertForMaskedLM", "distilbert.", read_distilbert);
  family.others = {"DistilBertModel"};
  add_tensors(family.tensors, {{"{p}transformer.layer.{l}.attention.q_lin", {"blocks.{l}.attn.wq"}},
                               {"{p}transformer.layer.{l}.attention.k_lin", {"blocks.{l}.attn.wk"}},
                               {"{p}transformer.layer.{l}.attention.v_lin", {"blocks.{l}.attn.wv"}},
                               {"{p}transformer.layer.{l}.attention.out_lin", {"blocks.{l}.attn.wo"}},
                               {"{p}transformer.layer.{l}.sa_layer_norm", {"blocks.{l}.ln1"}},
                               {"{p}transformer.layer.{l}.ffn.lin1", {"blocks.{l}.mlp.w_up"}},
                               {"{p}transformer.layer.{l}.ffn.lin2", {"blocks.{l}.mlp.w_down"}},
                               {"{p}transformer.layer.{l}.output_layer_norm", {"blocks.{l}.ln2"}},
                               {"vocab_transform", {"head.dense"}},
                               {"vocab_layer_norm", {"head.ln"}},
                               {"vocab_projector", {"unembed"}}});
  family.tasks = pooled_classes("pre_classifier", Activation::relu, "classifier", "pre_classifier");
  family.keys = {{"d_model", "dim"},
                 {"n_layers", "n_layers"},
                 {"n_heads", "n_heads"},
                 {"d_ff", "hidden_dim"},
                 {"max_seq_len", "max_position_embeddings"}};
  return family;
}

}  // namespace vitrine
