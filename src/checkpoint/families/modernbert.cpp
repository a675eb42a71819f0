// ModernBERT: norms before the sublayers, RoPE, gated FFNs, no biases; one layer of three attends to the whole text,
// the others within a window. Sources: Warner et al. 2024; transformers, models/modernbert.
#include "base/error.h"
#include "checkpoint/hugging_face/encoder_parts.h"

namespace vitrine {
namespace {

ModelConfig read_modernbert(ConfigReader& c) {
  for (const char* key :
       {"attention_dropout", "embedding_dropout", "mlp_dropout", "classifier_pooling", "cls_token_id",
        "initializer_cutoff_factor", "deterministic_flash_attn", "reference_compile", "repad_logits_with_grad",
        "sparse_prediction", "sparse_pred_ignore_index", "layer_norm_eps", "position_embedding_type"}) {
    c.ignore(key);  // training, kernels, other classes, and keys of BERT without effect
  }
  ModelConfig model;
  model.d_model = c.size("hidden_size");
  model.vocab_size = c.size("vocab_size");
  model.max_seq_len = c.size_or("max_position_embeddings", 8192);
  const NormConfig norm{NormConfig::Kind::layer, read_eps(c, "norm_eps", 1e-5), 0.0f, c.flag_or("norm_bias", false)};
  model.embedding.norm = model.final_norm = norm;
  for (const std::string& name : c.texts_or_empty("architectures")) model.has_head = !name.ends_with("Model");
  model.embedding.untrained_id = read_id(c, "pad_token_id", 50283, model.vocab_size);
  model.head.tied = c.flag_or("tie_word_embeddings", true);
  model.head.bias = c.flag_or("decoder_bias", true);
  model.head.transform = {read_activation(c, "classifier_activation", "gelu"), norm,
                          c.flag_or("classifier_bias", false)};

  AttentionConfig attention;
  attention.n_heads = attention.n_kv_heads = c.size("num_attention_heads");
  attention.head_dim = read_head_dim(c, "", model.d_model, attention.n_heads);
  attention.score_scale = inverse_sqrt(static_cast<double>(attention.head_dim));
  attention.bidirectional = true;
  attention.qkv_bias = attention.out_bias = c.flag_or("attention_bias", false);
  const DenseConfig ffn{c.size_or("intermediate_size", 1152), read_activation(c, "hidden_activation", "gelu"), true,
                        c.flag_or("mlp_bias", false)};
  const RopeConfig global =
      read_rope(c, attention.head_dim, model.max_seq_len,
                {.theta = 160000, .theta_key = "global_rope_theta", .layer_type = "full_attention"});
  const RopeConfig local = read_rope(c, attention.head_dim, model.max_seq_len,
                                     {.theta_key = "local_rope_theta", .layer_type = "sliding_attention"});
  expect_pairs(c, global, "num_attention_heads");
  const std::int64_t window = c.size_or("local_attention", 128) / 2 + 1;
  const auto n_layers = static_cast<std::size_t>(c.size("num_hidden_layers", kMaxLayers));
  const auto every_n = static_cast<std::size_t>(c.size_or("global_attn_every_n_layers", 3));
  const std::vector<std::string> types = c.texts_or_empty("layer_types");
  if (!types.empty() && types.size() != n_layers) {
    throw BadCheckpoint(c.where(), "layer_types: expected {} texts, got {}", n_layers, types.size());
  }
  for (std::size_t layer = 0; layer < n_layers; ++layer) {
    const bool is_local = types.empty() ? layer % every_n != 0 : types[layer] == "sliding_attention";
    if (!types.empty() && !is_local && types[layer] != "full_attention") {
      throw Unsupported(c.where(), "layer_types: expected full_attention or sliding_attention, got \"{}\"",
                        types[layer]);
    }
    AttentionConfig own = attention;
    own.rope = is_local ? local : global;
    if (is_local) own.window = window;
    BlockConfig block = transformer_block(own, ffn);
    if (layer > 0) block.sublayers[0].norms.pre = norm;  // the first reads the embedding's norm
    block.sublayers[1].norms.pre = norm;
    model.blocks.push_back(std::move(block));
  }
  return model;
}

/// The dense layer, activation and norm of the head for masked words, as its other classes have them.
void read_head(ConfigReader& c, const ModelConfig& model, TaskHead& head) {
  head.dense_bias = model.head.transform->bias;
  head.activation = model.head.transform->activation;
  head.norm = model.head.transform->norm;
  if (head.pool == TaskHead::Pool::none) return;
  const std::string pooling = c.text_or("classifier_pooling", "cls");
  if (pooling != "cls" && pooling != "mean") {
    throw Unsupported(c.where(), "classifier_pooling: expected cls or mean, got \"{}\"", pooling);
  }
  head.pool = pooling == "cls" ? TaskHead::Pool::first : TaskHead::Pool::mean;
}

}  // namespace

Family modernbert_family() {
  Family family;
  family.model_type = "modernbert";
  family.architecture = "ModernBertForMaskedLM";
  family.others = {"ModernBertModel"};
  family.read_config = read_modernbert;
  family.prefixes = {"model.", ""};
  family.embedding = "{p}embeddings.tok_embeddings.weight";
  family.tensors = {
      {"{p}embeddings.tok_embeddings", {"embed"}},
      {"{p}embeddings.norm", {"ln_embed"}},
      {"{p}layers.{l}.attn_norm", {"blocks.{l}.ln1"}},
      {"{p}layers.{l}.attn.Wqkv", {"blocks.{l}.attn.wq", "blocks.{l}.attn.wk", "blocks.{l}.attn.wv"}},
      {"{p}layers.{l}.attn.Wo", {"blocks.{l}.attn.wo"}},
      {"{p}layers.{l}.mlp_norm", {"blocks.{l}.ln2"}},
      {"{p}layers.{l}.mlp.Wi", {"blocks.{l}.mlp.w_gate", "blocks.{l}.mlp.w_up"}},
      {"{p}layers.{l}.mlp.Wo", {"blocks.{l}.mlp.w_down"}},
      {"{p}final_norm", {"ln_final"}},
      {"head.dense", {"head.dense"}},
      {"head.norm", {"head.ln"}},
      {"decoder", {"unembed"}},
  };
  const std::vector<TensorRule> head = {
      {"head.dense", {"head.dense"}}, {"head.norm", {"head.ln"}}, {"classifier", {"head.out"}}};
  using Task = TaskHead::Task;
  using Pool = TaskHead::Pool;
  family.tasks = {{"ForSequenceClassification", {}, head, true, read_head},
                  {"ForMultipleChoice", {.task = Task::choose}, head, true, read_head},
                  {"ForTokenClassification", {.task = Task::tag, .pool = Pool::none}, head, true, read_head},
                  {"ForQuestionAnswering", {.task = Task::answer, .pool = Pool::none}, head, true, read_head}};
  family.keys = {{"d_model", "hidden_size"},
                 {"n_layers", "num_hidden_layers"},
                 {"n_heads", "num_attention_heads"},
                 {"d_ff", "intermediate_size"},
                 {"max_seq_len", "max_position_embeddings"}};
  return family;
}

}  // namespace vitrine
