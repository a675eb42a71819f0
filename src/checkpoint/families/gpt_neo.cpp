// GPT-Neo: GPT-2 with projections of their own for q, k and v, whose scores are not scaled; every other layer has a
// window. Sources: Black et al. 2021; transformers, models/gpt_neo; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

/// Removes the biases of q, k and v and the scale; gives local layers, by default every second one, the window.
void read_layers(ConfigReader& c, ModelConfig& model) {
  const std::vector<std::string> listed = c.texts_or_empty("attention_layers");
  const std::size_t n = model.blocks.size();
  std::vector<std::string> kinds = c.repeated_texts_or_empty("attention_types", n);
  if (kinds.empty()) kinds = listed;
  const std::size_t n_missing = kinds.empty() ? n : 0;
  for (std::size_t i = 0; i < n_missing; ++i) kinds.emplace_back(i % 2 == 0 ? "global" : "local");
  if (kinds.size() != n || (!listed.empty() && listed != kinds)) {
    throw BadCheckpoint(c.where(), "attention_types: expected one of each layer ({}), as in attention_layers, got {}",
                        n, kinds.size());
  }
  const std::int64_t window = c.size_or("window_size", 256);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    AttentionConfig& attention = *find<AttentionConfig>(model.blocks[i]);
    attention.qkv_bias = false;
    attention.score_scale = 1;
    if (kinds[i] == "local") attention.window = window;
    if (kinds[i] == "local" || kinds[i] == "global") continue;
    throw Unsupported(c.where(), "attention_types: expected global or local, got \"{}\"", kinds[i]);
  }
}

}  // namespace

Family gpt_neo_family() {
  Family family = gpt2_like_family("gpt_neo", "GPTNeoForCausalLM", [](ConfigReader& c) {
    for (const char* key : {"resid_dropout", "embed_dropout"}) c.ignore(key);  // training
    DecoderKeys keys = gpt2_keys();
    keys.d_model_key = "hidden_size";
    keys.n_layers_key = "num_layers";
    keys.n_heads_key = "num_heads";
    keys.max_seq_len_key = "max_position_embeddings";
    keys.d_ff_key = "intermediate_size";
    ModelConfig model = read_gpt2_decoder(c, keys);
    read_layers(c, model);
    return model;
  });
  add_tensors(family.tensors, {{"{p}h.{l}.attn.attention.q_proj", {"blocks.{l}.attn.wq"}},
                               {"{p}h.{l}.attn.attention.k_proj", {"blocks.{l}.attn.wk"}},
                               {"{p}h.{l}.attn.attention.v_proj", {"blocks.{l}.attn.wv"}},
                               {"{p}h.{l}.attn.attention.out_proj", {"blocks.{l}.attn.wo"}}});
  family.ignored = {"{p}h.{l}.attn.attention.bias", "{p}h.{l}.attn.attention.masked_bias"};  // the mask
  family.keys = {{"d_model", "hidden_size"},    {"n_layers", "num_layers"}, {"n_heads", "num_heads"},
                 {"d_ff", "intermediate_size"}, {"window", "window_size"},  {"max_seq_len", "max_position_embeddings"}};
  return family;
}

}  // namespace vitrine
