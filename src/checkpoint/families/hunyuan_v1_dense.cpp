// Hunyuan, dense: norms of q and k after RoPE, whose theta a fixed alpha stretches. Sources: Tencent Hunyuan Team 2025;
// transformers, models/hunyuan_v1_dense; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

/// Keys of the published files that transformers does not read. Each must describe what its class computes.
void check_hunyuan_keys(ConfigReader& c, std::int64_t head_dim) {
  const auto expect = [&](bool holds, std::string_view key, std::string_view expected) {
    if (!holds) throw Unsupported(c.where(), "{}: expected {}", key, expected);
  };
  expect(c.size_or("attention_head_dim", head_dim) == head_dim, "attention_head_dim", "the value of head_dim");
  expect(c.text_or("norm_type", "rms") == "rms", "norm_type", "\"rms\"");
  for (const char* key : {"use_qk_norm", "use_rotary_pos_emb"}) expect(c.flag_or(key, true), key, "true");
  c.refuse("use_cla");
  c.ignore("cla_share_factor");                                       // no effect without use_cla
  for (const char* key : {"dense_list", "pool_type"}) c.ignore(key);  // of a classification head
  for (const char* key : {"eod_token_id", "im_end_id", "im_newline_id", "im_start_id", "image_token_id", "mask_init_id",
                          "org_vocab_size", "pad_id", "text_end_id", "text_start_id"}) {
    c.ignore(key);  // special tokens
  }
}

}  // namespace

Family hunyuan_v1_dense_family() {
  Family family = decoder_family("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{};
    keys.norm.eps = 1e-5f;
    keys.rope.has_alpha = true;
    ModelConfig model = read_decoder(c, keys);
    check_hunyuan_keys(c, attention_of(model, 0)->head_dim);
    read_attention_bias(c, model);
    norm_q_and_k(model, QkNormConfig::Over::head);
    for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) a->qk_norm->after_rope = true;
    return model;
  });
  add_tensors(family.tensors, {{"{p}layers.{l}.self_attn.query_layernorm", {"blocks.{l}.attn.q_norm"}},
                               {"{p}layers.{l}.self_attn.key_layernorm", {"blocks.{l}.attn.k_norm"}}});
  return family;
}

}  // namespace vitrine
