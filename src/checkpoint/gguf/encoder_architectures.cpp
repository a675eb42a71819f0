// Architectures of GGUF files of encoders: BERT and its relatives, NomicBERT, ModernBERT, EmbeddingGemma. Sources:
// as in architecture.h.
#include "base/error.h"
#include "checkpoint/gguf/architecture.h"
#include "checkpoint/gguf/misread.h"
#include "tokenizer/read/gguf_vocab.h"

namespace vitrine {
namespace {

using Kind = GgufKey::Kind;

/// The norms after the sums, and the embeddings of BERT.
std::vector<TensorRule> bert_tensors() {
  return {{"token_types", {"type_embed"}},
          {"token_embd_norm", {"ln_embed"}},
          {"blk.{l}.attn_output_norm", {"blocks.{l}.ln1"}},
          {"blk.{l}.layer_output_norm", {"blocks.{l}.ln2"}}};
}

/// The gate and the map next to it are one tensor.
std::vector<TensorRule> jina_tensors() {
  std::vector<TensorRule> tensors = bert_tensors();
  tensors.push_back({"blk.{l}.ffn_up", {"blocks.{l}.mlp.w_gate", "blocks.{l}.mlp.w_up"}});
  return tensors;
}

/// A file may have no embeddings of types. Its positions begin with that of the first token.
void adapt_bert(ModelConfig& model, const GgufMetadata& metadata, const StoredTensors& tensors) {
  const auto types = tensors.all.find(kTypeTable);
  const bool has_types = types != tensors.all.end() && !types->second.shape.empty();
  model.embedding.n_types = has_types ? types->second.shape.front() : 0;
  const auto count = metadata.integer(kGgufTypeCount);
  if (!has_types || !count || *count == model.embedding.n_types) return;
  throw BadCheckpoint(metadata.path(), "{}: expected {} (the rows of token_types.weight), got {}", kGgufTypeCount,
                      model.embedding.n_types, *count);
}

void complete_nomic(Json& config, const StoredTensors&) { config["hidden_act"] = "silu"; }

/// llama.cpp divides scores by √(elements of a head). Without the size of a window, no layer has one.
void complete_gemma_embedding(Json& config, const StoredTensors&) {
  config["use_bidirectional_attention"] = true;
  config["query_pre_attn_scalar"] = config["head_dim"];
}

void complete_jina(Json& config, const StoredTensors&) {
  config["position_embedding_type"] = "alibi";
  config["feed_forward_type"] = "geglu";
}

bool has_alibi(const ModelConfig& config) {
  const auto* const attention = find<AttentionConfig>(config.blocks.front());
  return attention != nullptr && attention->alibi;
}

bool has_no_alibi(const ModelConfig& config) { return !has_alibi(config); }

bool reads_both_ways(const ModelConfig& config) { return is_bidirectional(config); }

}  // namespace

std::vector<GgufArchitecture> encoder_architectures() {
  return {
      {.name = "bert",
       .family = "bert",
       .is_also = {"roberta", "xlm-roberta", "camembert", "distilbert"},
       .written_for = has_no_alibi,
       .keys = {{"attention.layer_norm_epsilon", "layer_norm_eps", Kind::number, true}},
       .tensors = bert_tensors(),
       .adapt = adapt_bert,
       .is_encoder = true},
      {.name = "jina-bert-v2",
       .family = "bert",
       .written_for = has_alibi,
       .keys = {{"attention.layer_norm_epsilon", "layer_norm_eps", Kind::number, true}},
       .tensors = jina_tensors(),
       .complete = complete_jina,
       .adapt = adapt_bert,
       .is_encoder = true},
      {.name = "nomic-bert",
       .family = "nomic_bert",
       .keys = {{"attention.layer_norm_epsilon", "layer_norm_eps", Kind::number, true},
                {"rope.freq_base", "rope_theta", Kind::number}},
       .fused_qkv = true,
       .tensors = bert_tensors(),
       .complete = complete_nomic,
       .adapt = adapt_bert,
       .is_encoder = true},
      {.name = "modern-bert",
       .family = "modernbert",
       .keys = {{"attention.layer_norm_epsilon", "norm_eps", Kind::number, true},
                {"attention.sliding_window", "local_attention", Kind::size},
                {"attention.sliding_window_pattern", "global_attn_every_n_layers", Kind::layers},
                {"rope.freq_base", "global_rope_theta", Kind::number},
                {"rope.freq_base_swa", "local_rope_theta", Kind::number, false, 10000.0}},
       .fused_qkv = true,
       .ignored = {"attention.layer_norm_rms_epsilon"},  // llama.cpp does not read it either
       .tensors = {{"token_embd_norm", {"ln_embed"}},
                   {"blk.{l}.ffn_up", {"blocks.{l}.mlp.w_gate", "blocks.{l}.mlp.w_up"}}},
       .misread = any_bias,
       .is_encoder = true,
       .activation = "hidden_activation"},
      {.name = "gemma-embedding",
       .family = "gemma3_text",
       .written_for = reads_both_ways,
       .keys = with_keys(rms_and_rope_keys(),
                         {{"attention.sliding_window", "sliding_window", Kind::size, true},
                          {"attention.sliding_window_pattern", "sliding_window_pattern", Kind::size, false, 6.0},
                          {"rope.freq_base_swa", "rope_local_base_freq", Kind::number, false, 10000.0}}),
       .complete = complete_gemma_embedding,
       .is_encoder = true,
       .has_dense = true},
  };
}

}  // namespace vitrine
