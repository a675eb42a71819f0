// GPT-2. Sources: Radford et al. 2019; transformers, models/gpt2 (Conv1D stores [in, out]).
#include <cmath>

#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_gpt2(ConfigReader& c) {
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop", "n_ctx", "n_special", "predict_special_tokens",
                          "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout",
                          "summary_proj_to_labels", "summary_type", "summary_use_proj"}) {
    c.ignore(key);  // training, the heads and tokens of the first GPT, and the order of scaling in half precision
  }
  ModelConfig model;
  model.d_model = c.size("n_embd");
  model.vocab_size = c.size("vocab_size");
  model.max_seq_len = c.size_or("n_positions", 1024);
  model.embedding.position_table = true;
  model.head.tied = c.flag_or("tie_word_embeddings", true);

  const NormConfig norm{NormConfig::Kind::layer, static_cast<float>(c.number_or("layer_norm_epsilon", 1e-5)), 0.0f,
                        true};
  AttentionConfig attention;
  attention.n_heads = attention.n_kv_heads = c.size("n_head");
  attention.head_dim = read_head_dim(c, "", model.d_model, attention.n_heads);
  attention.qkv_bias = attention.out_bias = true;
  const DenseConfig ffn{c.size_or("n_inner", 4 * model.d_model),
                        activation_named(c, c.text_or("activation_function", "gelu_new")), false, true};
  model.final_norm = norm;
  const BlockConfig block{{{attention, {norm}}, {ffn, {norm}}}};
  model.blocks.assign(static_cast<std::size_t>(c.size("n_layer", kMaxLayers)), block);

  const bool by_head_dim = c.flag_or("scale_attn_weights", true);
  const bool by_layer = c.flag_or("scale_attn_by_inverse_layer_idx", false);
  for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
    const double scale = by_head_dim ? 1.0 / std::sqrt(static_cast<double>(attention.head_dim)) : 1.0;
    find<AttentionConfig>(model.blocks[layer])->score_scale =
        static_cast<float>(by_layer ? scale / static_cast<double>(layer + 1) : scale);
  }
  return model;
}

}  // namespace

Family gpt2_family() {
  Family family;
  family.model_type = "gpt2";
  family.architecture = "GPT2LMHeadModel";
  family.read_config = read_gpt2;
  family.prefixes = {"transformer.", ""};
  family.embedding = "{p}wte.weight";
  family.tensors = {
      {"{p}wte", {"embed"}},
      {"{p}wpe", {"pos_embed"}},
      {"{p}h.{l}.ln_1", {"blocks.{l}.ln1"}},
      {"{p}h.{l}.attn.c_attn", {"blocks.{l}.attn.wq", "blocks.{l}.attn.wk", "blocks.{l}.attn.wv"}, kTransposed},
      {"{p}h.{l}.attn.c_proj", {"blocks.{l}.attn.wo"}, kTransposed},
      {"{p}h.{l}.ln_2", {"blocks.{l}.ln2"}},
      {"{p}h.{l}.mlp.c_fc", {"blocks.{l}.mlp.w_up"}, kTransposed},
      {"{p}h.{l}.mlp.c_proj", {"blocks.{l}.mlp.w_down"}, kTransposed},
      {"{p}ln_f", {"ln_final"}},
      {"lm_head", {"unembed"}},
  };
  family.ignored = {"{p}h.{l}.attn.bias", "{p}h.{l}.attn.masked_bias"};  // the causal mask
  family.keys = {{"d_model", "n_embd"},
                 {"n_layers", "n_layer"},
                 {"n_heads", "n_head"},
                 {"d_ff", "n_inner"},
                 {"max_seq_len", "n_positions"}};
  return family;
}

}  // namespace vitrine
