#include "checkpoint/hugging_face/encoder_parts.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace vitrine {

namespace {

/// What the class of the model adds to the stack: `XModel` has a pooler and no head, `XForPreTraining` all.
void read_class(ConfigReader& c, bool has_pooler, ModelConfig& model) {
  for (const std::string& name : c.texts_or_empty("architectures")) {
    model.has_head = !name.ends_with("Model");
    const bool pretrains = name.ends_with("ForPreTraining");
    if (has_pooler && (!model.has_head || pretrains)) model.pooler = PoolerConfig{pretrains};
  }
}

}  // namespace

ModelConfig read_encoder(ConfigReader& c, const EncoderKeys& keys, double eps, Activation head_activation) {
  ModelConfig model;
  model.d_model = c.size(keys.d_model);
  model.vocab_size = c.size("vocab_size");
  model.max_seq_len = c.size_or("max_position_embeddings", 512);
  const NormConfig norm{NormConfig::Kind::layer, static_cast<float>(eps), 0.0f, true};
  model.embedding.position_table = true;
  model.embedding.norm = norm;
  model.embedding.untrained_id = read_id(c, "pad_token_id", keys.pad_id, model.vocab_size);
  model.head.tied = c.flag_or("tie_word_embeddings", true);
  model.head.bias = true;
  model.head.transform = {head_activation, norm};
  read_class(c, keys.has_pooler, model);

  AttentionConfig attention;
  attention.n_heads = attention.n_kv_heads = c.size(keys.n_heads);
  attention.head_dim = read_head_dim(c, "", model.d_model, attention.n_heads);
  attention.score_scale = inverse_sqrt(static_cast<double>(attention.head_dim));
  attention.bidirectional = attention.qkv_bias = attention.out_bias = true;
  const DenseConfig ffn{c.size(keys.d_ff), read_activation(c, keys.activation, "gelu"), false, true};
  BlockConfig block = transformer_block(attention, ffn);
  for (Sublayer& sublayer : block.sublayers) sublayer.norms.sum = norm;
  model.blocks.assign(static_cast<std::size_t>(c.size(keys.n_layers, kMaxLayers)), block);
  return model;
}

ModelConfig read_bert(ConfigReader& c, std::optional<Activation> head_activation, std::int64_t pad_id,
                      bool may_have_alibi) {
  c.refuse("is_decoder");
  for (const char* key : {"attention_probs_dropout_prob", "hidden_dropout_prob", "classifier_dropout"}) c.ignore(key);
  for (const char* key : {"directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
                          "pooler_size_per_head", "pooler_type"}) {
    c.ignore(key);  // of the first multilingual BERT; they have no effect
  }
  const std::string positions = c.text_or("position_embedding_type", "absolute");
  c.expect(positions == "absolute" || (may_have_alibi && positions == "alibi"), "position_embedding_type", "absolute");
  const Activation own = read_activation(c, "hidden_act", "gelu");
  ModelConfig model = read_encoder(
      c,
      EncoderKeys{"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act", pad_id},
      c.number_or("layer_norm_eps", 1e-12), head_activation.value_or(own));
  model.embedding.n_types = c.size_or("type_vocab_size", 2);
  return model;
}

ModelConfig read_rotary_encoder(ConfigReader& c, const RotaryEncoderKeys& keys) {
  for (const char* key : {"attention_probs_dropout_prob", "hidden_dropout_prob"}) c.ignore(key);
  const Activation activation = read_activation(c, "hidden_act", keys.activation);
  ModelConfig model = read_encoder(c,
                                   {.d_model = "hidden_size",
                                    .n_layers = "num_hidden_layers",
                                    .n_heads = "num_attention_heads",
                                    .d_ff = "intermediate_size",
                                    .activation = "hidden_act",
                                    .pad_id = keys.pad_id,
                                    .has_pooler = false},
                                   c.number_or("layer_norm_eps", 1e-12), activation);
  model.max_seq_len = c.size_or("max_position_embeddings", keys.max_seq_len);
  model.embedding.position_table = false;
  model.embedding.n_types =
      c.optional_number("type_vocab_size") == 0.0 ? 0 : c.size_or("type_vocab_size", keys.n_types);
  for (AttentionConfig* attention : every<AttentionConfig>(model.blocks)) {
    attention->head_dim = read_head_dim(c, keys.head_dim_key, model.d_model, attention->n_heads);
    attention->score_scale = inverse_sqrt(static_cast<double>(attention->head_dim));
    attention->rope = read_rope(c, attention->head_dim, model.max_seq_len, {.theta = keys.theta});
    expect_pairs(c, *attention->rope, "num_attention_heads");
  }
  for (DenseConfig* dense : every<DenseConfig>(model.blocks)) {
    dense->gated = true;
    dense->activation = activation;
  }
  return model;
}

ModelConfig read_roberta(ConfigReader& c) {
  ModelConfig model = read_bert(c, Activation::gelu_erf, 1);
  const double pad = c.number_or("pad_token_id", 1);
  if (!(pad >= 0 && pad + 1 < static_cast<double>(model.max_seq_len) && pad == std::floor(pad))) {
    throw BadCheckpoint(c.where(), "pad_token_id: expected from 0 to {}, got {}", model.max_seq_len - 2, pad);
  }
  model.embedding.first_position = static_cast<std::int64_t>(pad) + 1;
  model.embedding.uncounted_id = static_cast<std::int32_t>(pad);
  model.max_seq_len -= model.embedding.first_position;
  return model;
}

Family bert_like(std::string_view model_type, std::string_view architecture, std::string_view prefix,
                 std::function<ModelConfig(ConfigReader&)> read_config) {
  Family family;
  family.model_type = model_type;
  family.architecture = architecture;
  family.read_config = std::move(read_config);
  family.prefixes = {prefix, ""};
  family.embedding = "{p}embeddings.word_embeddings.weight";
  family.tensors = {
      {"{p}embeddings.word_embeddings", {"embed"}},
      {"{p}embeddings.position_embeddings", {"pos_embed"}},
      {"{p}embeddings.token_type_embeddings", {"type_embed"}},
      {"{p}embeddings.LayerNorm", {"ln_embed"}},
      {"{p}encoder.layer.{l}.attention.self.query", {"blocks.{l}.attn.wq"}},
      {"{p}encoder.layer.{l}.attention.self.key", {"blocks.{l}.attn.wk"}},
      {"{p}encoder.layer.{l}.attention.self.value", {"blocks.{l}.attn.wv"}},
      {"{p}encoder.layer.{l}.attention.output.dense", {"blocks.{l}.attn.wo"}},
      {"{p}encoder.layer.{l}.attention.output.LayerNorm", {"blocks.{l}.ln1"}},
      {"{p}encoder.layer.{l}.intermediate.dense", {"blocks.{l}.mlp.w_up"}},
      {"{p}encoder.layer.{l}.output.dense", {"blocks.{l}.mlp.w_down"}},
      {"{p}encoder.layer.{l}.output.LayerNorm", {"blocks.{l}.ln2"}},
  };
  family.tensors.push_back({"{p}pooler.dense", {"pooler.dense"}});
  family.tensors.push_back({"cls.seq_relationship", {"nsp_head"}});
  // a buffer, and layers that a model of another class does not use
  family.ignored = {"{p}embeddings.position_ids", "{p}pooler.dense.weight", "{p}pooler.dense.bias",
                    "cls.seq_relationship.weight", "cls.seq_relationship.bias"};
  // some files of models without a head have no pooler
  family.adapt = [](ModelConfig& model, const HasTensor& has) {
    constexpr std::string_view kNames[] = {
        "pooler.dense.weight", "bert.pooler.dense.weight", "roberta.pooler.dense.weight", "mpnet.pooler.dense.weight",
        "pooler.weight",       "albert.pooler.weight"};
    const bool is_stored = std::any_of(std::begin(kNames), std::end(kNames), has);
    if (model.pooler && !model.has_head && !is_stored) model.pooler.reset();
  };
  family.keys = {{"d_model", "hidden_size"},
                 {"n_layers", "num_hidden_layers"},
                 {"n_heads", "num_attention_heads"},
                 {"d_ff", "intermediate_size"},
                 {"max_seq_len", "max_position_embeddings"}};
  return family;
}

Family roberta_like(std::string_view model_type, std::string_view architecture, std::string_view without_head) {
  Family family = bert_like(model_type, architecture, "roberta.", read_roberta);
  family.others = {without_head};
  add_tensors(family.tensors,
              {{"lm_head.dense", {"head.dense"}}, {"lm_head.layer_norm", {"head.ln"}}, {"lm_head", {"unembed"}}});
  family.tensors.push_back({"lm_head.decoder", {"unembed"}});
  family.tasks = pooled_classes("classifier.dense", Activation::tanh, "classifier.out_proj", "{p}pooler.dense");
  return family;
}

}  // namespace vitrine
