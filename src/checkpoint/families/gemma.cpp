// Gemma 1 and Gemma 2. Sources: Gemma Team 2024 (both reports); transformers, models/gemma and models/gemma2; the
// published config.json files.
#include <cmath>

#include "base/error.h"
#include "checkpoint/families/families.h"

namespace vitrine {
namespace {

/// What both generations share: RMSNorm by 1 + w, one head_dim apart from d_model / n_heads, a gated tanh-GELU, tied
/// head, embeddings times √d_model.
ModelConfig read_shared(ConfigReader& c, Activation activation, double score_scale) {
  ModelConfig model;
  model.d_model = c.size("hidden_size");
  model.vocab_size = c.size("vocab_size");
  model.embedding.scale = static_cast<float>(std::sqrt(static_cast<double>(model.d_model)));
  model.head.tied = c.flag_or("tie_word_embeddings", true);
  c.refuse("use_bidirectional_attention");

  const NormConfig norm{NormConfig::Kind::rms, static_cast<float>(c.number_or("rms_norm_eps", 1e-6)), 1.0f, false};
  BlockConfig block;
  block.norms.attn_pre = block.norms.ffn_pre = norm;
  AttentionConfig& attention = block.attention;
  attention.n_heads = c.size("num_attention_heads");
  attention.n_kv_heads = c.size_or("num_key_value_heads", attention.n_heads);
  attention.head_dim = c.size_or("head_dim", 256);
  attention.score_scale =
      static_cast<float>(score_scale > 0 ? score_scale : 1.0 / std::sqrt(static_cast<double>(attention.head_dim)));
  attention.rope = read_rope(c, attention.head_dim);
  model.max_seq_len = stretched_context(c.size_or("max_position_embeddings", 8192), *attention.rope);
  attention.qkv_bias = attention.out_bias = c.flag_or("attention_bias", false);
  block.ffn = DenseConfig{c.size("intermediate_size"), activation, true, false};
  model.final_norm = norm;
  model.blocks.assign(static_cast<std::size_t>(c.size("num_hidden_layers", kMaxLayers)), block);
  return model;
}

/// The published files say "gelu" and mean the tanh form: the model was trained with it (gemma_pytorch,
/// gemma/model.py).
ModelConfig read_gemma(ConfigReader& c) {
  std::string act = c.text_or("hidden_act", "gelu_pytorch_tanh");
  if (act == "gelu") act = "gelu_pytorch_tanh";
  const std::string newer = c.text_or("hidden_activation", act);
  if (newer != act && newer != "gelu") {
    throw Unsupported(c.where(), "hidden_act and hidden_activation contradict each other: {} and {}", act, newer);
  }
  return read_shared(c, activation_named(c, act), 0);
}

ModelConfig read_gemma2(ConfigReader& c) {
  c.ignore("hidden_act");  // hidden_activation decides
  c.ignore("cache_implementation");
  const Activation activation = activation_named(c, c.text_or("hidden_activation", "gelu_pytorch_tanh"));
  const double scalar = c.number_or("query_pre_attn_scalar", 256);
  if (!(scalar > 0)) throw BadCheckpoint(c.where(), "query_pre_attn_scalar must be above 0, got {}", scalar);
  ModelConfig model = read_shared(c, activation, 1.0 / std::sqrt(scalar));
  model.head.softcap = read_softcap(c, "final_logit_softcapping", 30.0);
  const std::optional<float> softcap = read_softcap(c, "attn_logit_softcapping", 50.0);
  const std::int64_t window = c.size_or("sliding_window", 4096);
  const std::vector<bool> sliding = read_sliding_layers(c, static_cast<std::int64_t>(model.blocks.size()));
  for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
    BlockConfig& block = model.blocks[layer];
    block.attention.softcap = softcap;
    if (sliding.empty() ? layer % 2 == 0 : sliding[layer]) block.attention.window = window;
    block.norms.attn_post = block.norms.ffn_post = block.norms.attn_pre;
  }
  return model;
}

}  // namespace

Family gemma_family() {
  Family family;
  family.model_type = "gemma";
  family.architectures = {"GemmaForCausalLM"};
  family.read_config = read_gemma;
  use_decoder_names(family);
  family.tensors.push_back({"{p}layers.{l}.post_attention_layernorm.weight", {"blocks.{l}.ln2.weight"}});
  return family;
}

Family gemma2_family() {
  Family family;
  family.model_type = "gemma2";
  family.architectures = {"Gemma2ForCausalLM"};
  family.read_config = read_gemma2;
  use_decoder_names(family);
  add_four_norms(family);
  return family;
}

}  // namespace vitrine
