#include "report/describe.h"

#include <fmt/format.h>

namespace vitrine {
namespace {

std::string describe_norm(const std::optional<NormConfig>& norm) {
  if (!norm) return "none";
  return fmt::format("{}, eps {}{}{}", norm->kind == NormConfig::Kind::rms ? "RMSNorm" : "LayerNorm", norm->eps,
                     norm->weight_offset != 0 ? fmt::format(", weight {} + w", norm->weight_offset) : "",
                     norm->bias ? ", bias" : "");
}

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

std::string_view describe_activation(Activation activation) {
  static constexpr std::string_view kNames[] = {"ReLU", "SiLU", "GELU (tanh form)", "GELU (exact)", "tanh"};
  return kNames[static_cast<std::size_t>(activation)];
}

std::string describe_ffn(const DenseConfig& c) {
  return fmt::format("{}{}{}", describe_activation(c.activation), c.gated ? ", gated" : "", c.bias ? ", biases" : "");
}

std::string describe_ffn(const MoeConfig& c) {
  std::string text = fmt::format("{} of {} experts ({}), weights {}", c.top_k, c.n_experts, describe_ffn(c.expert),
                                 c.renormalize ? "renormalized" : "from the softmax");
  if (c.shared) text += fmt::format(", and a shared one of d_ff {}", c.shared->d_ff);
  return text;
}

std::int64_t width_of(const DenseConfig& c) { return c.d_ff; }
std::int64_t width_of(const MoeConfig& c) { return c.expert.d_ff; }

std::string describe_qk_norm(const std::optional<QkNormConfig>& c) {
  if (!c) return "none";
  static constexpr const char* kOver[] = {"each head", "each head, with its own weight", "all heads as one vector"};
  return fmt::format("{}, over {}", describe_norm(c->norm), kOver[static_cast<int>(c->over)]);
}

std::string describe_sinusoid(const EmbeddingConfig& c) {
  if (!c.sinusoid) return "none";
  static constexpr const char* kNames[] = {"interleaved", "halves", "tensor2tensor"};
  return fmt::format("{}, {}", kNames[static_cast<int>(*c.sinusoid)], c.position_table ? "as stored" : "computed");
}

std::string describe_relative_bias(const std::optional<RelativeBiasConfig>& c) {
  if (!c) return "none";
  return fmt::format("{} buckets up to distance {}", c->n_buckets, c->max_distance);
}

OrderedJson or_none(const std::optional<float>& number) { return number ? OrderedJson(*number) : OrderedJson("none"); }

}  // namespace

OrderedJson describe_model(const ModelConfig& config) {
  OrderedJson described = {
      {"d_model", config.d_model},
      {"n_layers", config.blocks.size()},
      {"vocab_size", config.vocab_size},
      {"max_seq_len", config.max_seq_len},
      {"embedding_scale", config.embedding.scale},
      {"learned_positions", config.embedding.position_table && !config.embedding.sinusoid},
      {"sinusoids", describe_sinusoid(config.embedding)},
      {"relative_bias", describe_relative_bias(config.relative_bias)},
      {"first_position", config.embedding.first_position},
      {"token_types", config.embedding.n_types},
      {"tokens_per_row", config.embedding.context},
      {"embedding_norm", describe_norm(config.embedding.norm)},
      {"final_norm", describe_norm(config.final_norm)},
      {"head", config.head.tied ? "tied to the embedding" : "untied"},
      {"head_transform", config.head.transform
                             ? "dense, " + std::string(describe_activation(config.head.transform->activation)) + ", " +
                                   describe_norm(config.head.transform->norm)
                             : "none"},
      {"logit_scale", config.head.scale},
      {"final_softcap", or_none(config.head.softcap)}};
  if (config.encoder) {
    described["encoder"] =
        fmt::format("d_model {}, {} layers, vocabulary {}, context {}, {}", config.encoder->d_model,
                    config.encoder->blocks.size(), config.encoder->vocab_size, config.encoder->max_seq_len,
                    config.shared_embedding ? "embedding shared" : "its own embedding");
  }
  return described;
}

namespace {

OrderedJson describe_recurrent(const RecurrentConfig& c) {
  static constexpr const char* kKinds[] = {"RNN, tanh", "RNN, ReLU", "GRU", "LSTM"};
  const auto bridge = [&] { return *c.bridge == RecurrentConfig::Bridge::copy ? "as it is" : "through a linear map"; };
  return {{"cell", kKinds[static_cast<int>(c.kind)]},
          {"d_hidden", c.d_hidden},
          {"reads", c.bidirectional ? "both directions" : "earlier tokens"},
          {"first_state", c.bridge ? fmt::format("the encoder's last, {}", bridge()) : "zeros"},
          {"attention",
           c.d_attention ? fmt::format("additive, to the encoder's output, d_attention {}", *c.d_attention) : "none"}};
}

}  // namespace

OrderedJson describe_block(const BlockConfig& block) {
  if (const RecurrentConfig* const recurrent = block.recurrent()) return describe_recurrent(*recurrent);
  if (const auto* dense = std::get_if<PerceptronConfig>(&block.mixer)) {
    return {{"layer", "dense"}, {"d_hidden", dense->d_hidden}, {"activation", describe_activation(dense->activation)}};
  }
  const AttentionConfig& a = block.attention();
  const char* const sharing = a.n_kv_heads == a.n_heads ? "MHA" : a.n_kv_heads == 1 ? "MQA" : "GQA";
  return {
      {"attention", sharing},
      {"n_heads", a.n_heads},
      {"n_kv_heads", a.n_kv_heads},
      {"head_dim", a.head_dim},
      {"window", a.window ? OrderedJson(*a.window) : OrderedJson("none")},
      {"score_scale", a.score_scale},
      {"softcap", or_none(a.softcap)},
      {"rope", describe_rope(a.rope)},
      {"attention_biases", fmt::format("q, k, v: {}; out: {}", a.qkv_bias ? "yes" : "no", a.out_bias ? "yes" : "no")},
      {"qk_norm", describe_qk_norm(a.qk_norm)},
      {"residual",
       block.residual == BlockConfig::Residual::serial ? "serial: attention, then FFN" : "parallel: attention and FFN"},
      {"residual_scale", block.residual_scale},
      {"norm_before_attention", describe_norm(block.norms.attn.pre)},
      {"norm_after_attention", describe_norm(block.norms.attn.post)},
      {"norm_of_sum_after_attention", describe_norm(block.norms.attn.sum)},
      {"mask", a.bidirectional ? "both directions" : "causal"},
      {"cross_attention", block.cross_attention ? "the encoder's output" : "none"},
      {"d_ff", std::visit([](const auto& ffn) { return width_of(ffn); }, block.ffn)},
      {"ffn", std::visit([](const auto& ffn) { return describe_ffn(ffn); }, block.ffn)},
      {"norm_before_ffn",
       block.norms.ffn_reads_attn_pre ? "the norm before attention" : describe_norm(block.norms.ffn.pre)},
      {"norm_after_ffn", describe_norm(block.norms.ffn.post)},
      {"norm_of_sum_after_ffn", describe_norm(block.norms.ffn.sum)}};
}

}  // namespace vitrine
