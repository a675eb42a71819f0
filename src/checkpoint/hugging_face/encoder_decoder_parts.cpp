#include "checkpoint/hugging_face/encoder_decoder_parts.h"

#include <cmath>
#include <set>

#include "base/error.h"
#include "checkpoint/hugging_face/config_json.h"

namespace vitrine {
namespace {

/// T5 has no table of positions, and so no limit of its own.
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 20;

/// The layers of one stack. `side` is "encoder" or "decoder".
std::vector<BlockConfig> read_bart_blocks(ConfigReader& c, const std::string& side, const BartOptions& options,
                                          std::int64_t d_model, Activation activation) {
  const NormConfig norm{NormConfig::Kind::layer, 1e-5f, 0.0f, true};
  AttentionConfig attention;
  attention.n_heads = attention.n_kv_heads = c.size_or(side + "_attention_heads", 16);
  attention.head_dim = read_head_dim(c, "", d_model, attention.n_heads);
  attention.score_scale = inverse_sqrt(static_cast<double>(attention.head_dim));
  attention.qkv_bias = attention.out_bias = true;
  const bool is_encoder = side == "encoder";
  attention.bidirectional = is_encoder;
  const DenseConfig ffn{c.size_or(side + "_ffn_dim", 4096), activation, false, true};
  BlockConfig block = transformer_block(attention, ffn, !is_encoder);
  for (Sublayer& sublayer : block.sublayers) (options.pre_norm ? sublayer.norms.pre : sublayer.norms.sum) = norm;
  return {static_cast<std::size_t>(c.size(side + "_layers", kMaxLayers)), block};
}

void add_attention(std::vector<TensorRule>& tensors, const TensorRule (&rules)[4]) {
  tensors.insert(tensors.end(), std::begin(rules), std::end(rules));
}

/// Adds the encoder's tensors as those of a model that is the encoder alone.
void add_encoder_alone(std::vector<TensorRule>& tensors) {
  static std::set<std::string> names;  // of rules, which hold views
  for (std::size_t i = 0, n = tensors.size(); i < n; ++i) {
    TensorRule rule = tensors[i];
    std::string ours(rule.ours.front());
    if (!ours.starts_with("encoder.")) continue;
    ours.replace(0, std::string_view("encoder.").size(), ours.starts_with("encoder.{l}") ? "blocks." : "");
    rule.ours = {*names.insert(ours).first};
    tensors.push_back(rule);
  }
}

/// Uses the tables of sinusoids, the biases of the logits and the head that the file has.
void adapt_bart(ModelConfig& model, const HasTensor& has) {
  if (model.embedding.sinusoid) {
    const auto has_either = [&](const std::string& name) { return has("model." + name) || has(name); };
    model.embedding.position_table = has_either("decoder.embed_positions.weight");
    model.encoder->embedding.position_table = has_either("encoder.embed_positions.weight");
  }
  model.head.bias = has("final_logits_bias");
}

}  // namespace

ModelConfig read_bart(ConfigReader& c, const BartOptions& options) {
  for (const char* key : {"activation_dropout", "add_bias_logits", "add_final_layer_norm", "attention_dropout",
                          "classif_dropout", "decoder_layerdrop", "dropout", "encoder_layerdrop",
                          "extra_pos_embeddings", "force_bos_token_to_be_generated", "init_std", "normalize_before",
                          "normalize_embedding", "num_hidden_layers", "save_step", "static_position_embeddings"}) {
    c.ignore(key);  // of training, or of early versions; the class of the model decides
  }
  ModelConfig model;
  model.d_model = c.size("d_model");
  model.vocab_size = c.size("vocab_size");
  model.max_seq_len = c.size_or("max_position_embeddings", 1024);
  const bool scales = c.flag_or("scale_embedding", options.scaled_embedding);
  if (scales) model.embedding.scale = static_cast<float>(std::sqrt(static_cast<double>(model.d_model)));
  model.embedding.first_position = options.first_position;
  model.embedding.position_table = options.positions == BartOptions::Positions::learned;
  if (options.positions == BartOptions::Positions::halves) model.embedding.sinusoid = Sinusoid::halves;
  if (options.positions == BartOptions::Positions::tensor2tensor) model.embedding.sinusoid = Sinusoid::tensor2tensor;
  const NormConfig norm{NormConfig::Kind::layer, 1e-5f, 0.0f, true};
  if (options.embedding_norm) model.embedding.norm = norm;
  if (options.pre_norm) model.final_norm = norm;
  model.head.tied = c.flag_or("tie_word_embeddings", true);
  model.head.is_bias_trained = false;

  model.encoder = static_cast<const StackConfig&>(model);
  model.shared_embedding = c.flag_or("share_encoder_decoder_embeddings", true);
  const std::optional<std::int64_t> decoder_vocab_size = c.optional_size("decoder_vocab_size");
  if (!model.shared_embedding && decoder_vocab_size) model.vocab_size = *decoder_vocab_size;
  const auto pad = read_id(c, "pad_token_id", options.pad_id, std::min(model.vocab_size, model.encoder->vocab_size));
  model.embedding.untrained_id = model.encoder->embedding.untrained_id = pad;
  if (!options.counts_pads) {
    model.encoder->embedding.uncounted_id = pad;
    const auto own = pad.value_or(static_cast<std::int32_t>(options.pad_id));  // null in the config: the default
    model.embedding.first_position = model.encoder->embedding.first_position = own + 1;
  }
  const Activation activation = read_activation(c, "activation_function", options.activation);
  model.encoder->blocks = read_bart_blocks(c, "encoder", options, model.d_model, activation);
  model.blocks = read_bart_blocks(c, "decoder", options, model.d_model, activation);
  return model;
}

Family bart_like(std::string_view model_type, std::string_view architecture, const BartOptions& options) {
  Family family;
  family.model_type = model_type;
  family.architecture = architecture;
  family.read_config = [options](ConfigReader& c) { return read_bart(c, options); };
  family.adapt = adapt_bart;
  family.has_encoder = true;
  family.prefixes = {"model.", ""};
  family.embedding = "{p}encoder.layers.0.fc1.weight";  // in every file: some have no shared embedding
  std::vector<TensorRule>& tensors = family.tensors;
  tensors = {
      {"{p}shared", {"embed"}},
      {"{p}encoder.embed_tokens", {"encoder.embed"}},
      {"{p}decoder.embed_tokens", {"decoder.embed"}},
      {"{p}encoder.embed_positions", {"encoder.pos_embed"}},
      {"{p}decoder.embed_positions", {"decoder.pos_embed"}},
      {"{p}encoder.layernorm_embedding", {"encoder.ln_embed"}},
      {"{p}decoder.layernorm_embedding", {"decoder.ln_embed"}},
      {"{p}encoder.layers.{l}.self_attn_layer_norm", {"encoder.{l}.ln1"}},
      {"{p}encoder.layers.{l}.fc1", {"encoder.{l}.mlp.w_up"}},
      {"{p}encoder.layers.{l}.fc2", {"encoder.{l}.mlp.w_down"}},
      {"{p}encoder.layers.{l}.final_layer_norm", {"encoder.{l}.ln2"}},
      {"{p}encoder.layer_norm", {"encoder.ln_final"}},
      {"{p}decoder.layers.{l}.self_attn_layer_norm", {"decoder.{l}.ln1"}},
      {"{p}decoder.layers.{l}.encoder_attn_layer_norm", {"decoder.{l}.ln2"}},
      {"{p}decoder.layers.{l}.fc1", {"decoder.{l}.mlp.w_up"}},
      {"{p}decoder.layers.{l}.fc2", {"decoder.{l}.mlp.w_down"}},
      {"{p}decoder.layers.{l}.final_layer_norm", {"decoder.{l}.ln3"}},
      {"{p}decoder.layer_norm", {"decoder.ln_final"}},
      {"lm_head", {"unembed"}},
  };
  add_attention(tensors, {{"{p}encoder.layers.{l}.self_attn.q_proj", {"encoder.{l}.attn.wq"}},
                          {"{p}encoder.layers.{l}.self_attn.k_proj", {"encoder.{l}.attn.wk"}},
                          {"{p}encoder.layers.{l}.self_attn.v_proj", {"encoder.{l}.attn.wv"}},
                          {"{p}encoder.layers.{l}.self_attn.out_proj", {"encoder.{l}.attn.wo"}}});
  add_attention(tensors, {{"{p}decoder.layers.{l}.self_attn.q_proj", {"decoder.{l}.attn.wq"}},
                          {"{p}decoder.layers.{l}.self_attn.k_proj", {"decoder.{l}.attn.wk"}},
                          {"{p}decoder.layers.{l}.self_attn.v_proj", {"decoder.{l}.attn.wv"}},
                          {"{p}decoder.layers.{l}.self_attn.out_proj", {"decoder.{l}.attn.wo"}}});
  add_attention(tensors, {{"{p}decoder.layers.{l}.encoder_attn.q_proj", {"decoder.{l}.cross_attn.wq"}},
                          {"{p}decoder.layers.{l}.encoder_attn.k_proj", {"decoder.{l}.cross_attn.wk"}},
                          {"{p}decoder.layers.{l}.encoder_attn.v_proj", {"decoder.{l}.cross_attn.wv"}},
                          {"{p}decoder.layers.{l}.encoder_attn.out_proj", {"decoder.{l}.cross_attn.wo"}}});
  // Other names of a shared embedding, of which a file may have any.
  for (const std::string_view name : {"{p}encoder.embed_tokens", "{p}decoder.embed_tokens"}) {
    TensorRule copy{name, {"embed"}};
    copy.is_copy = true;
    tensors.push_back(copy);
  }
  TensorRule bias{"final_logits_bias", {"unembed"}};
  bias.is_buffer = true;
  tensors.push_back(bias);
  family.keys = {{"d_ff", "encoder_ffn_dim"},
                 {"n_heads", "encoder_attention_heads"},
                 {"n_layers", "encoder_layers"},
                 {"max_seq_len", "max_position_embeddings"}};
  return family;
}

ModelConfig read_t5(ConfigReader& c, bool scales_tied_logits) {
  for (const char* key : {"dense_act_fn", "dropout_rate", "is_gated_act", "n_positions", "scalable_attention"}) {
    c.ignore(key);  // they follow from feed_forward_proj, or have no effect
  }
  ModelConfig model;
  model.d_model = c.size("d_model");
  model.vocab_size = c.size("vocab_size");
  model.max_seq_len = kMaxPositions;
  const auto eps = static_cast<float>(c.number_or("layer_norm_epsilon", 1e-6));
  const NormConfig norm{NormConfig::Kind::rms, eps, 0.0f, false};
  model.final_norm = norm;
  model.head.tied = c.flag_or("tie_word_embeddings", true);
  const bool scales = c.flag_or("scale_decoder_outputs", model.head.tied && scales_tied_logits);
  if (scales) model.head.scale = inverse_sqrt(static_cast<double>(model.d_model));

  AttentionConfig attention;
  attention.n_heads = attention.n_kv_heads = c.size("num_heads");
  attention.head_dim = c.size("d_kv");
  const std::string proj = c.text_or("feed_forward_proj", "relu");
  const bool is_gated = proj.starts_with("gated-");
  const std::string activation = proj == "gated-gelu" ? "gelu_new" : is_gated ? proj.substr(6) : proj;
  const DenseConfig ffn{c.size("d_ff"), activation_named(c, "feed_forward_proj", activation), is_gated, false};
  model.relative_bias = {c.size_or("relative_attention_num_buckets", 32),
                         c.size_or("relative_attention_max_distance", 128), false};

  model.shared_embedding = true;
  model.encoder = static_cast<const StackConfig&>(model);
  model.encoder->relative_bias->bidirectional = true;
  const std::int64_t n_layers = c.size("num_layers", kMaxLayers);
  const std::int64_t n_decoder_layers =
      c.has("num_decoder_layers") ? c.size("num_decoder_layers", kMaxLayers) : n_layers;
  const auto block_of = [&](bool crosses) {
    BlockConfig block = transformer_block(attention, ffn, crosses);
    for (Sublayer& sublayer : block.sublayers) sublayer.norms.pre = norm;
    return block;
  };
  model.blocks.assign(static_cast<std::size_t>(n_decoder_layers), block_of(true));
  attention.bidirectional = true;
  model.encoder->blocks.assign(static_cast<std::size_t>(n_layers), block_of(false));
  if (is_encoder_alone(c)) {
    ModelConfig encoder;
    static_cast<StackConfig&>(encoder) = *model.encoder;
    encoder.has_head = false;
    return encoder;
  }
  return model;
}

Family t5_like(std::string_view model_type, std::string_view architecture, std::string_view encoder_alone,
               bool scales_tied_logits) {
  Family family;
  family.model_type = model_type;
  family.architecture = architecture;
  family.read_config = [scales_tied_logits](ConfigReader& c) { return read_t5(c, scales_tied_logits); };
  // tie_word_embeddings decides the scale of the logits; the head is the file's own, if it has one
  family.adapt = [](ModelConfig& model, const HasTensor& has) { model.head.tied = !has("lm_head.weight"); };
  family.others = {encoder_alone};
  family.has_encoder = true;
  family.prefixes = {"", "transformer."};
  family.embedding = "{p}shared.weight";
  std::vector<TensorRule>& tensors = family.tensors;
  tensors = {
      {"{p}shared", {"embed"}},
      {"{p}encoder.block.0.layer.0.SelfAttention.relative_attention_bias", {"encoder.rel_bias"}},
      {"{p}encoder.block.{l}.layer.0.layer_norm", {"encoder.{l}.ln1"}},
      {"{p}encoder.block.{l}.layer.1.layer_norm", {"encoder.{l}.ln2"}},
      {"{p}encoder.block.{l}.layer.1.DenseReluDense.wi_0", {"encoder.{l}.mlp.w_gate"}},
      {"{p}encoder.block.{l}.layer.1.DenseReluDense.wo", {"encoder.{l}.mlp.w_down"}},
      {"{p}encoder.final_layer_norm", {"encoder.ln_final"}},
      {"{p}decoder.block.0.layer.0.SelfAttention.relative_attention_bias", {"decoder.rel_bias"}},
      {"{p}decoder.block.{l}.layer.0.layer_norm", {"decoder.{l}.ln1"}},
      {"{p}decoder.block.{l}.layer.1.layer_norm", {"decoder.{l}.ln2"}},
      {"{p}decoder.block.{l}.layer.2.layer_norm", {"decoder.{l}.ln3"}},
      {"{p}decoder.block.{l}.layer.2.DenseReluDense.wi_0", {"decoder.{l}.mlp.w_gate"}},
      {"{p}decoder.block.{l}.layer.2.DenseReluDense.wo", {"decoder.{l}.mlp.w_down"}},
      {"{p}decoder.final_layer_norm", {"decoder.ln_final"}},
      {"lm_head", {"unembed"}},
  };
  const auto is_gated = [](const BlockConfig& block) { return find<DenseConfig>(block)->gated; };
  const auto is_plain = [](const BlockConfig& block) { return !find<DenseConfig>(block)->gated; };
  const auto add_up = [&](std::string_view stored, std::string_view ours, bool (*applies)(const BlockConfig&)) {
    TensorRule rule{stored, {ours}};
    rule.applies = applies;
    tensors.push_back(rule);
  };
  add_up("{p}encoder.block.{l}.layer.1.DenseReluDense.wi_1", "encoder.{l}.mlp.w_up", is_gated);
  add_up("{p}encoder.block.{l}.layer.1.DenseReluDense.wi", "encoder.{l}.mlp.w_up", is_plain);
  add_up("{p}decoder.block.{l}.layer.2.DenseReluDense.wi_1", "decoder.{l}.mlp.w_up", is_gated);
  add_up("{p}decoder.block.{l}.layer.2.DenseReluDense.wi", "decoder.{l}.mlp.w_up", is_plain);
  add_attention(tensors, {{"{p}encoder.block.{l}.layer.0.SelfAttention.q", {"encoder.{l}.attn.wq"}},
                          {"{p}encoder.block.{l}.layer.0.SelfAttention.k", {"encoder.{l}.attn.wk"}},
                          {"{p}encoder.block.{l}.layer.0.SelfAttention.v", {"encoder.{l}.attn.wv"}},
                          {"{p}encoder.block.{l}.layer.0.SelfAttention.o", {"encoder.{l}.attn.wo"}}});
  add_attention(tensors, {{"{p}decoder.block.{l}.layer.0.SelfAttention.q", {"decoder.{l}.attn.wq"}},
                          {"{p}decoder.block.{l}.layer.0.SelfAttention.k", {"decoder.{l}.attn.wk"}},
                          {"{p}decoder.block.{l}.layer.0.SelfAttention.v", {"decoder.{l}.attn.wv"}},
                          {"{p}decoder.block.{l}.layer.0.SelfAttention.o", {"decoder.{l}.attn.wo"}}});
  add_attention(tensors, {{"{p}decoder.block.{l}.layer.1.EncDecAttention.q", {"decoder.{l}.cross_attn.wq"}},
                          {"{p}decoder.block.{l}.layer.1.EncDecAttention.k", {"decoder.{l}.cross_attn.wk"}},
                          {"{p}decoder.block.{l}.layer.1.EncDecAttention.v", {"decoder.{l}.cross_attn.wv"}},
                          {"{p}decoder.block.{l}.layer.1.EncDecAttention.o", {"decoder.{l}.cross_attn.wo"}}});
  add_encoder_alone(tensors);
  for (const std::string_view name : {"{p}encoder.embed_tokens", "{p}decoder.embed_tokens"}) {
    TensorRule copy{name, {"embed"}};
    copy.is_copy = true;
    tensors.push_back(copy);
  }
  // of the first conversions; cross-attention has no bias
  family.ignored = {"{p}decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};
  family.keys = {{"n_layers", "num_layers"}, {"n_heads", "num_heads"}, {"head_dim", "d_kv"}};
  return family;
}

}  // namespace vitrine
