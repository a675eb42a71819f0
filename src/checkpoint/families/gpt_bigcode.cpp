// GPT-BigCode (SantaCoder, StarCoder): GPT-2 with one shared K/V head, whose weights are stored as [out, in]. Sources:
// Li et al. 2023; transformers, models/gpt_bigcode; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

bool is_multi_query(const BlockConfig& block) { return find<AttentionConfig>(block)->n_kv_heads == 1; }
bool is_multi_head(const BlockConfig& block) { return !is_multi_query(block); }

}  // namespace

Family gpt_bigcode_family() {
  Family family = gpt2_like_family("gpt_bigcode", "GPTBigCodeForCausalLM", [](ConfigReader& c) {
    // the types and memory of other programs; multi_query decides the number of K/V heads
    for (const char* key :
         {"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "inference_runner", "validate_runner_input",
          "runner_max_sequence_length", "pre_allocate_kv_cache", "pad_key_length", "num_key_value_heads"}) {
      c.ignore(key);
    }
    c.refuse("add_cross_attention");
    DecoderKeys keys = gpt2_keys();
    keys.max_seq_len = 1024;
    keys.activation = "gelu_pytorch_tanh";
    ModelConfig model = read_gpt2_decoder(c, keys);
    const bool is_shared = c.flag_or("multi_query", true), is_scaled = c.flag_or("scale_attn_weights", true);
    for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) {
      if (is_shared) a->n_kv_heads = 1;
      if (!is_scaled) a->score_scale = 1;
    }
    return model;
  });
  const std::vector<std::string_view> qkv = {"blocks.{l}.attn.wq", "blocks.{l}.attn.wk", "blocks.{l}.attn.wv"};
  add_tensors(family.tensors, {{"{p}h.{l}.attn.c_attn", qkv, kAsIs, Rows::stacked, is_multi_query},
                               {"{p}h.{l}.attn.c_attn", qkv, kAsIs, Rows::by_kv_head, is_multi_head}});
  return family;
}

}  // namespace vitrine
