#include <fmt/format.h>

#include "model/describe.h"
#include "model/mixers/attention/attention.h"

namespace vitrine {
namespace {

std::string describe_rope(const std::optional<RopeConfig>& rope) {
  if (!rope) return "none";
  std::string text = fmt::format("theta {}, {} elements per head, {}", rope->theta, rope->dim,
                                 rope->layout == RopeConfig::Layout::halves ? "halves" : "interleaved");
  if (const auto* linear = std::get_if<LinearScaling>(&rope->scaling)) {
    text += fmt::format(", linear scaling by {}", linear->factor);
  }
  if (const auto* llama3 = std::get_if<Llama3Scaling>(&rope->scaling)) {
    text += fmt::format(", llama3 scaling by {} (bands {} to {}, from {} tokens)", llama3->factor,
                        llama3->low_freq_factor, llama3->high_freq_factor, llama3->original_max_seq_len);
  }
  if (const auto* yarn = std::get_if<YarnScaling>(&rope->scaling)) {
    text += fmt::format(", YaRN scaling by {} (rotations {} to {}, from {} tokens)", yarn->factor, yarn->beta_fast,
                        yarn->beta_slow, yarn->original_max_seq_len);
  }
  if (const auto* longrope = std::get_if<LongRopeScaling>(&rope->scaling)) {
    text += fmt::format(", LongRoPE scaling (long factors beyond {} tokens)", longrope->original_max_seq_len);
  }
  if (const auto* ntk = std::get_if<DynamicNtkScaling>(&rope->scaling)) {
    text += fmt::format(", dynamic NTK scaling by {} (beyond {} tokens)", ntk->factor, ntk->original_max_seq_len);
  }
  if (rope->magnitude != 1.0f) text += fmt::format(", cos and sin times {}", rope->magnitude);
  return text;
}

std::string describe_qk_norm(const std::optional<QkNormConfig>& c) {
  if (!c) return "none";
  static constexpr const char* kOver[] = {"each head", "each head, with its own weight", "all heads as one vector"};
  return fmt::format("{}, over {}{}", describe_norm(c->norm), kOver[static_cast<int>(c->over)],
                     c->after_rope ? ", after RoPE" : "");
}

}  // namespace

ConfigFacts describe(const AttentionConfig& a) {
  const char* const sharing = a.n_kv_heads == a.n_heads ? "MHA" : a.n_kv_heads == 1 ? "MQA" : "GQA";
  return {
      {"attention", sharing},
      {"n_heads", a.n_heads},
      {"n_kv_heads", a.n_kv_heads},
      {"head_dim", a.head_dim},
      {"window", or_none(a.window)},
      {"score_scale", a.score_scale},
      {"softcap", or_none(a.softcap)},
      {"rope", describe_rope(a.rope)},
      {"attention_biases", fmt::format("q, k, v: {}; out: {}", a.qkv_bias ? "yes" : "no", a.out_bias ? "yes" : "no")},
      {"qkv_clip", or_none(a.qkv_clip)},
      {"qk_norm", describe_qk_norm(a.qk_norm)},
      {"mask", a.bidirectional ? "both directions" : "causal"}};
}

ConfigFacts describe(const CrossAttentionConfig&) { return {{"cross_attention", "the encoder's output"}}; }

std::optional<double> gguf_word(const AttentionConfig& c, std::string_view word) {
  if (word == "n_heads") return static_cast<double>(c.n_heads);
  if (word == "n_kv_heads") return static_cast<double>(c.n_kv_heads);
  if (word == "head_dim") return static_cast<double>(c.head_dim);
  if (word == "attn_logit_softcapping" && c.softcap) return *c.softcap;
  if (word == "attention_multiplier") return c.score_scale;
  if (word == "clip_qkv" && c.qkv_clip) return *c.qkv_clip;
  return {};
}

std::optional<double> gguf_word(const CrossAttentionConfig&, std::string_view) { return {}; }

}  // namespace vitrine
