#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "base/checked.h"
#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMaxLayers = 10000;
constexpr std::int64_t kMaxExperts = 1 << 15;  // of all layers; the list of parameters has an entry for each
constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;

void check_size(std::string_view where, std::string_view name, std::int64_t value, std::int64_t most = kMaxSize) {
  if (value < 1 || value > most) throw BadInput(where, "expected {} from 1 to {}, got {}", name, most, value);
}

void check_number(std::string_view where, std::string_view name, float value) {
  if (!std::isfinite(value) || value <= 0) throw BadInput(where, "expected {} above 0, got {}", name, value);
}

void check_norm(std::string_view where, std::string_view name, const std::optional<NormConfig>& norm) {
  if (norm && !(norm->eps >= 0 && std::isfinite(norm->eps))) {
    throw BadInput(where, "expected the eps of {} to be at least 0, got {}", name, norm->eps);
  }
}

void check_frequencies(std::string_view where, const std::vector<float>& frequencies) {
  for (const float frequency : frequencies) {
    if (!std::isfinite(frequency)) throw BadInput(where, "expected finite rope frequencies, got {}", frequency);
  }
}

void check_attention(std::string_view where, const AttentionConfig& c) {
  check_size(where, "n_heads", c.n_heads);
  check_size(where, "n_kv_heads", c.n_kv_heads);
  check_size(where, "head_dim", c.head_dim);
  if (c.n_heads % c.n_kv_heads != 0) {
    throw BadInput(where, "expected n_heads to be a multiple of n_kv_heads ({}), got {}", c.n_kv_heads, c.n_heads);
  }
  check_size(where, "n_heads × head_dim", checked_mul(c.n_heads, c.head_dim).value_or(-1));
  check_number(where, "score_scale", c.score_scale);
  if (c.softcap) check_number(where, "softcap", *c.softcap);
  if (c.window) check_size(where, "window", *c.window);
  if (c.window && c.bidirectional) throw Unsupported(where, "a window in both directions is not supported");
  if (c.rope) {
    check_size(where, "rope dim", c.rope->dim, c.head_dim);
    if (c.rope->dim % 2 != 0) throw BadInput(where, "expected an even rope dim, got {}", c.rope->dim);
    check_number(where, "rope magnitude", c.rope->magnitude);
    check_frequencies(where, c.rope->frequency);
    if (depends_on_length(c.rope->scaling)) {
      check_frequencies(where, rope_frequency(c.rope->theta, c.rope->dim, c.rope->scaling, kMaxSize));
    }
  }
  if (c.qk_norm) check_norm(where, "qk_norm", c.qk_norm->norm);
}

void check_ffn(std::string_view where, const MoeConfig& c) {
  check_size(where, "n_experts", c.n_experts, kMaxExperts);
  check_size(where, "top_k", c.top_k, c.n_experts);
  check_size(where, "d_ff of an expert", c.expert.d_ff);
  if (c.shared) check_size(where, "d_ff of the shared expert", c.shared->d_ff);
}

void check_ffn(std::string_view where, const DenseConfig& c) { check_size(where, "d_ff", c.d_ff); }

void check_block(std::string_view where, const BlockConfig& c) {
  std::visit([&](const AttentionConfig& attention) { check_attention(where, attention); }, c.mixer);
  if (c.cross_attention) throw Unsupported(where, "cross-attention is not supported yet");
  if ((c.norms.attn_pre && c.norms.attn_sum) || (c.norms.ffn_pre && c.norms.ffn_sum)) {
    throw BadInput(where, "expected a norm before the sublayer or one after the residual sum, got both");
  }
  if (c.residual == BlockConfig::Residual::parallel && (c.norms.attn_sum || c.norms.ffn_sum)) {
    throw BadInput(where, "a parallel block has no norm after the residual sum");
  }
  const bool shares = c.norms.ffn_reads_attn_pre;
  if (shares && (c.residual != BlockConfig::Residual::parallel || c.norms.ffn_pre)) {
    throw BadInput(where, "ffn_reads_attn_pre requires a parallel block without ffn_pre");
  }
  std::visit([&](const auto& ffn) { check_ffn(where, ffn); }, c.ffn);
  check_number(where, "residual_scale", c.residual_scale);
  check_norm(where, "attn_pre", c.norms.attn_pre);
  check_norm(where, "attn_post", c.norms.attn_post);
  check_norm(where, "attn_sum", c.norms.attn_sum);
  check_norm(where, "ffn_pre", c.norms.ffn_pre);
  check_norm(where, "ffn_post", c.norms.ffn_post);
  check_norm(where, "ffn_sum", c.norms.ffn_sum);
}

}  // namespace

void validate(const ModelConfig& config, std::string_view where) {
  check_size(where, "d_model", config.d_model);
  check_size(where, "vocab_size", config.vocab_size);
  check_size(where, "max_seq_len", config.max_seq_len);
  check_size(where, "n_layers", static_cast<std::int64_t>(config.blocks.size()), kMaxLayers);
  check_number(where, "embedding scale", config.embedding.scale);
  check_norm(where, "the embedding's norm", config.embedding.norm);
  if (config.embedding.n_types != 0) check_size(where, "n_types", config.embedding.n_types);
  if (config.embedding.first_position != 0) check_size(where, "first_position", config.embedding.first_position);
  check_norm(where, "final_norm", config.final_norm);
  if (!config.encoder.empty()) throw Unsupported(where, "encoders are not supported yet");
  std::int64_t n_experts = 0;
  for (const BlockConfig& block : config.blocks) {
    check_block(where, block);
    if (const auto* moe = std::get_if<MoeConfig>(&block.ffn)) n_experts += moe->n_experts;
  }
  if (n_experts > kMaxExperts) throw BadInput(where, "expected at most {} experts, got {}", kMaxExperts, n_experts);
  if (config.head.transform) check_norm(where, "the head's norm", config.head.transform->norm);
  check_number(where, "scale of the logits", config.head.scale);
  if (config.head.softcap) check_number(where, "final softcap", *config.head.softcap);
}

bool is_bidirectional(const ModelConfig& config) {
  return std::any_of(config.blocks.begin(), config.blocks.end(),
                     [](const BlockConfig& block) { return block.attention().bidirectional; });
}

std::int64_t most_experts(const ModelConfig& config) {
  std::int64_t most = 0;
  for (const BlockConfig& block : config.blocks) {
    if (const auto* moe = std::get_if<MoeConfig>(&block.ffn)) most = std::max(most, moe->n_experts);
  }
  return most;
}

std::vector<KvLayerConfig> kv_layers(const ModelConfig& config) {
  std::vector<KvLayerConfig> layers;
  if (is_bidirectional(config)) return layers;
  for (const BlockConfig& block : config.blocks) {
    layers.push_back({block.attention().n_kv_heads, block.attention().head_dim, block.attention().window});
  }
  return layers;
}

}  // namespace vitrine
