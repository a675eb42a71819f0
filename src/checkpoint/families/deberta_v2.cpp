// DeBERTa V2 and V3: BERT whose scores of attention also depend on the distance of query and key (disentangled
// attention). Sources: He et al. 2021 and 2023; transformers, models/deberta_v2.
#include "base/error.h"
#include "checkpoint/hugging_face/encoder_parts.h"

namespace vitrine {
namespace {

/// Reads the table of relative positions, and which scores it adds.
void read_positions(ConfigReader& c, const NormConfig& norm, ModelConfig& model) {
  PositionTermsConfig terms;
  terms.shares = c.flag_or("share_att_key", false);
  std::vector<std::string> kinds = c.is_text("pos_att_type") ? std::vector<std::string>{c.text_or("pos_att_type", "")}
                                                             : c.texts_or_empty("pos_att_type");
  if (kinds.size() == 1 && kinds.front().find('|') != std::string::npos) {
    const std::string both = kinds.front();
    kinds = {both.substr(0, both.find('|')), both.substr(both.find('|') + 1)};
  }
  for (const std::string& kind : kinds) {
    if (kind == "c2p")
      terms.of_queries = true;
    else if (kind == "p2c")
      terms.of_keys = true;
    else
      throw Unsupported(c.where(), "pos_att_type: expected c2p and p2c, got \"{}\"", kind);
  }
  const int n_terms = 1 + terms.of_queries + terms.of_keys;
  const std::string norms = c.text_or("norm_rel_ebd", "none");
  const std::int64_t buckets = static_cast<std::int64_t>(c.number_or("position_buckets", -1));
  const double most = c.number_or("max_relative_positions", -1);
  const std::int64_t longest = most >= 1 ? static_cast<std::int64_t>(most) : model.max_seq_len;
  const bool is_relative = c.flag_or("relative_attention", false);
  for (AttentionConfig* attention : every<AttentionConfig>(model.blocks)) {
    attention->score_scale = inverse_sqrt(static_cast<double>(attention->head_dim) * n_terms);
    if (is_relative && n_terms > 1) attention->position_terms = terms;
  }
  if (!is_relative || n_terms == 1) return;
  DistanceTableConfig table{buckets > 0 ? buckets : longest};
  if (buckets > 0) table.max_distance = longest;
  if (norms.find("layer_norm") != std::string::npos) table.norm = norm;
  model.distance_table = table;
}

/// Reads the convolution next to the first layer.
void read_convolution(ConfigReader& c, const NormConfig& norm, BlockConfig& first) {
  if (c.number_or("conv_kernel_size", 0) <= 0) {
    for (const char* key : {"conv_act", "conv_groups"}) c.ignore(key);  // of no convolution
    return;
  }
  c.expect(c.number_or("conv_groups", 1) == 1, "conv_groups", "1");
  ConvolutionConfig convolution{c.size("conv_kernel_size"), read_activation(c, "conv_act", "tanh")};
  c.expect(convolution.width % 2 == 1, "conv_kernel_size", "an odd number");
  Sublayer& sublayer = first.sublayers.emplace_back(Sublayer{convolution});
  sublayer.input = Sublayer::Input::block;
  sublayer.norms.sum = norm;
}

ModelConfig read_deberta(ConfigReader& c) {
  for (const char* key : {"attention_probs_dropout_prob", "hidden_dropout_prob", "pooler_dropout", "cls_dropout",
                          "pooler_hidden_size", "pooler_hidden_act", "legacy"}) {
    c.ignore(key);  // training; the pooler's are read with its classes; both names of the head are known
  }
  const Activation activation = read_activation(c, "hidden_act", "gelu");
  ModelConfig model = read_encoder(c,
                                   {.d_model = "hidden_size",
                                    .n_layers = "num_hidden_layers",
                                    .n_heads = "num_attention_heads",
                                    .d_ff = "intermediate_size",
                                    .activation = "hidden_act",
                                    .has_pooler = false},
                                   c.number_or("layer_norm_eps", 1e-7), activation);
  const std::int64_t head_dim = attention_of(model, 0)->head_dim;
  c.expect(c.size_or("attention_head_size", head_dim) == head_dim, "attention_head_size", "hidden_size / heads");
  model.embedding.position_table = c.flag_or("position_biased_input", true);
  model.embedding.n_types = c.number_or("type_vocab_size", 0) == 0 ? 0 : c.size("type_vocab_size");
  c.expect(c.size_or("embedding_size", model.d_model) == model.d_model, "embedding_size", "hidden_size");
  read_positions(c, *model.embedding.norm, model);
  read_convolution(c, *model.embedding.norm, model.blocks.front());
  return model;
}

void read_pooler(ConfigReader& c, const ModelConfig& model, TaskHead& head) {
  head.activation = read_activation(c, "pooler_hidden_act", "gelu");
  c.expect(c.size_or("pooler_hidden_size", model.d_model) == model.d_model, "pooler_hidden_size", "hidden_size");
}

}  // namespace

Family deberta_v2_family() {
  Family family = bert_like("deberta-v2", "DebertaV2ForMaskedLM", "deberta.", read_deberta);
  family.others = {"DebertaV2Model"};
  add_tensors(family.tensors, {{"{p}encoder.layer.{l}.attention.self.query_proj", {"blocks.{l}.attn.wq"}},
                               {"{p}encoder.layer.{l}.attention.self.key_proj", {"blocks.{l}.attn.wk"}},
                               {"{p}encoder.layer.{l}.attention.self.value_proj", {"blocks.{l}.attn.wv"}},
                               {"{p}encoder.layer.{l}.attention.self.pos_key_proj", {"blocks.{l}.attn.w_pos_k"}},
                               {"{p}encoder.layer.{l}.attention.self.pos_query_proj", {"blocks.{l}.attn.w_pos_q"}},
                               {"{p}encoder.rel_embeddings", {"rel_embed"}},
                               {"{p}encoder.LayerNorm", {"ln_rel"}},
                               {"{p}encoder.conv.LayerNorm", {"blocks.0.ln3"}},
                               {"cls.predictions.transform.dense", {"head.dense"}},
                               {"cls.predictions.transform.LayerNorm", {"head.ln"}},
                               {"cls.predictions", {"unembed"}}});
  TensorRule kernel{"{p}encoder.conv.conv", {"blocks.0.convolution.kernel"}};
  kernel.is_convolution = true;
  family.tensors.push_back(kernel);
  for (const TensorRule& rule : std::vector<TensorRule>{{"cls.predictions.decoder", {"unembed"}},
                                                        {"lm_predictions.lm_head.dense", {"head.dense"}},
                                                        {"lm_predictions.lm_head.LayerNorm", {"head.ln"}},
                                                        {"lm_predictions.lm_head", {"unembed"}}}) {
    family.tensors.push_back(rule);
  }
  // Without terms that read them, the table of distances and its norm are in the file all the same.
  for (const std::string_view name :
       {"{p}encoder.rel_embeddings.weight", "{p}encoder.LayerNorm.weight", "{p}encoder.LayerNorm.bias"}) {
    family.ignored.push_back(name);
  }
  family.tasks = pooled_classes("pooler.dense", Activation::gelu_erf, "classifier", "pooler.dense");
  for (TaskClass& task : family.tasks) {
    if (task.has_dense) task.read = read_pooler;
  }
  return family;
}

}  // namespace vitrine
