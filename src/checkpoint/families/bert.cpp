// BERT: alone, with its head for masked tokens, or with all layers of the pre-training; and Jina's BERT, which has
// ALiBi in place of positions, and gated FFNs. Sources: Devlin et al. 2018; transformers, models/bert; Günther et al.
// 2023 (Jina embeddings v2).
#include "checkpoint/hugging_face/encoder_parts.h"

namespace vitrine {
namespace {

/// Jina's config is BERT's but for what position_embedding_type says.
ModelConfig read_bert_or_jina(ConfigReader& c) {
  ModelConfig model = read_bert(c, std::nullopt, 0, true);
  if (c.text_or("position_embedding_type", "absolute") != "alibi") return model;
  c.expect(c.text_or("feed_forward_type", "original") == "geglu", "feed_forward_type", "geglu");
  model.embedding.position_table = false;
  for (AttentionConfig* const attention : every<AttentionConfig>(model.blocks)) {
    attention->alibi = alibi_for(c, attention->n_heads);
  }
  for (DenseConfig* const ffn : every<DenseConfig>(model.blocks)) {
    *ffn = {.d_ff = ffn->d_ff, .activation = Activation::gelu_erf, .gated = true, .down_bias = true};
  }
  return model;
}

}  // namespace

Family bert_family() {
  Family family = bert_like("bert", "BertForMaskedLM", "bert.", read_bert_or_jina);
  family.others = {"BertForPreTraining", "BertModel"};
  // before the names of FFNs without a gate, which hold the same parameter
  family.tensors.insert(family.tensors.begin(),
                        {"{p}encoder.layer.{l}.mlp.gated_layers", {"blocks.{l}.mlp.w_gate", "blocks.{l}.mlp.w_up"}});
  add_tensors(family.tensors, {{"cls.predictions.transform.dense", {"head.dense"}},
                               {"cls.predictions.transform.LayerNorm", {"head.ln"}},
                               {"cls.predictions", {"unembed"}}});
  family.tensors.push_back({"cls.predictions.decoder", {"unembed"}});
  family.tasks = pooled_classes("{p}pooler.dense", Activation::tanh, "classifier", "{p}pooler.dense");
  return family;
}

}  // namespace vitrine
