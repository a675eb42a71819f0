// MPNet: BERT with learned positions and a relative bias of the scores, which all layers share. Sources: Song et al.
// 2020; transformers, models/mpnet.
#include "base/error.h"
#include "checkpoint/hugging_face/encoder_parts.h"

namespace vitrine {
namespace {

constexpr std::int64_t kPadding = 1;  // of positions, whatever pad_token_id says

ModelConfig read_mpnet(ConfigReader& c) {
  for (const char* key : {"attention_probs_dropout_prob", "hidden_dropout_prob"}) c.ignore(key);
  ModelConfig model = read_encoder(c,
                                   {.d_model = "hidden_size",
                                    .n_layers = "num_hidden_layers",
                                    .n_heads = "num_attention_heads",
                                    .d_ff = "intermediate_size",
                                    .activation = "hidden_act",
                                    .pad_id = kPadding},
                                   c.number_or("layer_norm_eps", 1e-12), Activation::gelu_erf);
  model.relative_bias = {c.size_or("relative_attention_num_buckets", 32), 128, true};
  if (model.max_seq_len <= kPadding + 1) {
    throw BadCheckpoint(c.where(), "max_position_embeddings: expected at least {}, got {}", kPadding + 2,
                        model.max_seq_len);
  }
  model.embedding.first_position = kPadding + 1;
  model.embedding.uncounted_id = kPadding;
  model.max_seq_len -= model.embedding.first_position;
  return model;
}

}  // namespace

Family mpnet_family() {
  Family family = bert_like("mpnet", "MPNetForMaskedLM", "mpnet.", read_mpnet);
  family.others = {"MPNetModel"};
  add_tensors(family.tensors, {{"{p}encoder.layer.{l}.attention.attn.q", {"blocks.{l}.attn.wq"}},
                               {"{p}encoder.layer.{l}.attention.attn.k", {"blocks.{l}.attn.wk"}},
                               {"{p}encoder.layer.{l}.attention.attn.v", {"blocks.{l}.attn.wv"}},
                               {"{p}encoder.layer.{l}.attention.attn.o", {"blocks.{l}.attn.wo"}},
                               {"{p}encoder.layer.{l}.attention.LayerNorm", {"blocks.{l}.ln1"}},
                               {"{p}encoder.relative_attention_bias", {"rel_bias"}},
                               {"lm_head.dense", {"head.dense"}},
                               {"lm_head.layer_norm", {"head.ln"}},
                               {"lm_head", {"unembed"}}});
  family.tensors.push_back({"lm_head.decoder", {"unembed"}});
  family.tasks = pooled_classes("classifier.dense", Activation::tanh, "classifier.out_proj", "{p}pooler.dense");
  return family;
}

}  // namespace vitrine
