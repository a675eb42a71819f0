// A family for tests. Its layers have, in turn, a moving average and an FFN, attention and an FFN, a moving average
// alone, and both mixers side by side.
#include <cmath>

#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_average(ConfigReader& c) {
  ModelConfig model;
  model.d_model = c.size("hidden_size");
  model.vocab_size = c.size("vocab_size");
  model.max_seq_len = c.size("max_position_embeddings");
  const NormConfig norm{NormConfig::Kind::rms, 1e-5f, 0.0f, false};
  AttentionConfig attention;
  attention.n_heads = attention.n_kv_heads = c.size("num_attention_heads");
  attention.head_dim = read_head_dim(c, "", model.d_model, attention.n_heads);
  attention.score_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(attention.head_dim)));
  attention.rope = make_rope(10000, attention.head_dim, RopeConfig::Layout::halves, std::monostate{});
  const AverageConfig average{model.d_model, c.flag_or("average_bias", false)};
  const DenseConfig ffn{c.size("intermediate_size"), Activation::silu, true, false};
  const BlockConfig kinds[] = {{{{average, {norm}}, {ffn, {norm}}}},
                               {{{attention, {norm}}, {ffn, {norm}}}},
                               {{{average, {norm}}}},
                               {{{attention, {norm}}, {average, {}, Sublayer::Input::previous}, {ffn, {norm}}}}};
  for (std::int64_t i = 0; i < c.size("num_hidden_layers", kMaxLayers); ++i) model.blocks.push_back(kinds[i % 4]);
  model.final_norm = norm;
  model.head.tied = c.flag_or("tie_word_embeddings", false);
  return model;
}

}  // namespace

Family average_family() {
  Family family;
  family.model_type = "average";
  family.architecture = "AverageForCausalLM";
  family.read_config = read_average;
  family.prefixes = {"model."};
  family.embedding = "{p}embed_tokens.weight";
  family.tensors = {
      {"{p}embed_tokens", {"embed"}},
      {"{p}layers.{l}.input_layernorm", {"blocks.{l}.ln1"}},
      {"{p}layers.{l}.average.decay", {"blocks.{l}.average.decay"}},
      {"{p}layers.{l}.average.o_proj", {"blocks.{l}.average.wo"}},
      {"{p}layers.{l}.self_attn.q_proj", {"blocks.{l}.attn.wq"}},
      {"{p}layers.{l}.self_attn.k_proj", {"blocks.{l}.attn.wk"}},
      {"{p}layers.{l}.self_attn.v_proj", {"blocks.{l}.attn.wv"}},
      {"{p}layers.{l}.self_attn.o_proj", {"blocks.{l}.attn.wo"}},
      {"{p}layers.{l}.post_attention_layernorm", {"blocks.{l}.ln2"}},
      {"{p}layers.{l}.mlp.gate_proj", {"blocks.{l}.mlp.w_gate"}},
      {"{p}layers.{l}.mlp.up_proj", {"blocks.{l}.mlp.w_up"}},
      {"{p}layers.{l}.mlp.down_proj", {"blocks.{l}.mlp.w_down"}},
      {"{p}norm", {"ln_final"}},
      {"lm_head", {"unembed"}},
  };
  family.tensors[2].has_ending = false;
  family.keys = {{"d_model", "hidden_size"},
                 {"n_layers", "num_hidden_layers"},
                 {"n_heads", "num_attention_heads"},
                 {"d_ff", "intermediate_size"},
                 {"max_seq_len", "max_position_embeddings"}};
  return family;
}

}  // namespace vitrine
