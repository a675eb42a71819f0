#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>

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

void check_norms(std::string_view where, std::string_view sublayer, const SublayerNorms& norms, bool is_parallel) {
  if (norms.pre && norms.sum) {
    throw BadInput(where, "expected a norm before {} or one after the residual sum, got both", sublayer);
  }
  if (is_parallel && norms.sum) throw BadInput(where, "a parallel block has no norm after the residual sum");
  for (const std::optional<NormConfig>& norm : {norms.pre, norms.post, norms.sum}) {
    check_norm(where, std::string("a norm of ") + std::string(sublayer), norm);
  }
}

void check_transformer_block(std::string_view where, const BlockConfig& c) {
  check_attention(where, c.attention());
  const bool is_parallel = c.residual == BlockConfig::Residual::parallel;
  if (c.cross_attention) {
    check_attention(where, *c.cross_attention);
    if (is_parallel) throw BadInput(where, "a parallel block has no cross-attention");
    if (c.cross_attention->rope || !c.cross_attention->bidirectional || c.cross_attention->window) {
      throw BadInput(where, "cross-attention has neither RoPE nor a window, and attends to all positions");
    }
  }
  const bool shares = c.norms.ffn_reads_attn_pre;
  if (shares && (!is_parallel || c.norms.ffn.pre)) {
    throw BadInput(where, "ffn_reads_attn_pre requires a parallel block without ffn.pre");
  }
  std::visit([&](const auto& ffn) { check_ffn(where, ffn); }, c.ffn);
  check_number(where, "residual_scale", c.residual_scale);
  check_norms(where, "attention", c.norms.attn, is_parallel);
  check_norms(where, "cross-attention", c.norms.cross_attn, is_parallel);
  check_norms(where, "the FFN", c.norms.ffn, is_parallel);
}

void check_recurrent(std::string_view where, const RecurrentConfig& c, bool is_first, bool has_source) {
  check_size(where, "d_hidden", c.d_hidden);
  if (c.d_attention) check_size(where, "d_attention", *c.d_attention);
  if (c.d_attention && (!is_first || !has_source)) {
    throw BadInput(where, "additive attention belongs to the first layer of a decoder that has an encoder");
  }
  if (c.bridge && !has_source) throw BadInput(where, "a bridge requires an encoder");
}

/// One layer of a stack whose first layer is `first`.
void check_block(std::string_view where, const BlockConfig& c, const BlockConfig& first, bool has_source) {
  if (c.mixer.index() != first.mixer.index()) throw BadInput(where, "expected layers of one kind in a stack");
  if (const RecurrentConfig* const recurrent = c.recurrent()) {
    return check_recurrent(where, *recurrent, &c == &first, has_source);
  }
  if (const auto* dense = std::get_if<PerceptronConfig>(&c.mixer)) {
    if (has_source) throw BadInput(where, "dense layers cannot read an encoder's output");
    return check_size(where, "d_hidden", dense->d_hidden);
  }
  check_transformer_block(where, c);
  if (has_source && !c.cross_attention) throw BadInput(where, "expected cross-attention in every layer");
  if (!has_source && c.cross_attention) throw BadInput(where, "cross-attention requires an encoder");
}

void check_context(std::string_view where, const StackConfig& config) {
  const EmbeddingConfig& c = config.embedding;
  check_size(where, "context", c.context, kMaxSize / config.d_model);
  if (c.context == 1) return;
  if (config.blocks.empty() || !std::holds_alternative<PerceptronConfig>(config.blocks.front().mixer)) {
    throw BadInput(where, "a context of {} tokens requires dense layers", c.context);
  }
  if (c.position_table || c.sinusoid || c.n_types > 0) {
    throw BadInput(where, "tokens that are placed next to each other have neither positions nor types");
  }
  if (c.context_pad < 0 || c.context_pad >= config.vocab_size) {
    throw BadInput(where, "expected a pad_token_id from 0 to {}, got {}", config.vocab_size - 1, c.context_pad);
  }
}

void check_embedding(std::string_view where, const StackConfig& config) {
  const EmbeddingConfig& c = config.embedding;
  check_number(where, "embedding scale", c.scale);
  check_norm(where, "the embedding's norm", c.norm);
  if (c.n_types != 0) check_size(where, "n_types", c.n_types);
  if (c.first_position != 0) check_size(where, "first_position", c.first_position);
  if (c.sinusoid == Sinusoid::tensor2tensor && config.d_model < 4) {
    throw BadInput(where, "sinusoids of tensor2tensor need a d_model of at least 4, got {}", config.d_model);
  }
}

void check_relative_bias(std::string_view where, const StackConfig& config) {
  const RelativeBiasConfig& c = *config.relative_bias;
  const std::int64_t n = c.bidirectional ? c.n_buckets / 2 : c.n_buckets;
  check_size(where, "relative_buckets", c.n_buckets);
  check_size(where, "relative_max_distance", c.max_distance);
  if (n < 2 || c.n_buckets % 2 != 0 || c.max_distance <= n / 2) {
    throw BadInput(where,
                   "expected an even number of relative buckets, at least {}, and a largest distance above {}, got {} "
                   "and {}",
                   c.bidirectional ? 4 : 2, n / 2, c.n_buckets, c.max_distance);
  }
  if (!config.blocks.front().has_attention()) {
    throw BadInput(where, "a relative bias requires attention within the stack");
  }
  const std::int64_t n_heads = config.blocks.front().attention().n_heads;
  for (const BlockConfig& block : config.blocks) {
    if (block.attention().n_heads == n_heads) continue;
    throw BadInput(where, "a relative bias requires the same number of heads in all layers, got {} and {}", n_heads,
                   block.attention().n_heads);
  }
}

/// The number of experts of all layers.
std::int64_t count_experts(const StackConfig& config) {
  std::int64_t n = 0;
  for (const BlockConfig& block : config.blocks) {
    if (const auto* moe = std::get_if<MoeConfig>(&block.ffn)) n += moe->n_experts;
  }
  return n;
}

void check_stack(std::string_view where, const StackConfig& config, bool has_source) {
  check_size(where, "d_model", config.d_model);
  check_size(where, "vocab_size", config.vocab_size);
  check_size(where, "max_seq_len", config.max_seq_len);
  check_size(where, "n_layers", static_cast<std::int64_t>(config.blocks.size()), kMaxLayers);
  check_embedding(where, config);
  check_norm(where, "final_norm", config.final_norm);
  check_context(where, config);
  for (const BlockConfig& block : config.blocks) check_block(where, block, config.blocks.front(), has_source);
  if (config.relative_bias) check_relative_bias(where, config);
}

/// The states that a recurrent decoder begins with.
void check_bridge(std::string_view where, const ModelConfig& config) {
  const StackConfig& encoder = *config.encoder;
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const RecurrentConfig* const to = config.blocks[i].recurrent();
    if (to == nullptr) return;
    if (!to->bridge) {
      if (config.blocks.front().recurrent()->d_attention) continue;
      throw BadInput(where,
                     "a recurrent decoder reads its encoder through a bridge or additive attention, got neither");
    }
    const RecurrentConfig* const from = i < encoder.blocks.size() ? encoder.blocks[i].recurrent() : nullptr;
    if (from == nullptr || encoder.blocks.size() != config.blocks.size()) {
      throw BadInput(where, "a bridge requires a recurrent encoder of as many layers, {}, got {}", config.blocks.size(),
                     from == nullptr ? 0 : encoder.blocks.size());
    }
    if (to->has_c() && !from->has_c()) throw BadInput(where, "the state of an LSTM comes from an encoder that is one");
    const bool is_copy = *to->bridge == RecurrentConfig::Bridge::copy;
    if (is_copy && (from->bidirectional || from->d_hidden != to->d_hidden)) {
      throw BadInput(where,
                     "copied states must have equal sizes: the decoder's d_hidden is {}, the encoder's {}{}; a linear "
                     "bridge has no such limit",
                     to->d_hidden, from->d_hidden, from->bidirectional ? " in both directions" : "");
    }
  }
}

}  // namespace

std::int64_t StackConfig::width_before(std::size_t i) const {
  if (i == 0) return d_model * embedding.context;
  const BlockConfig& block = blocks[i - 1];
  if (const RecurrentConfig* const recurrent = block.recurrent()) return recurrent->width();
  if (const auto* dense = std::get_if<PerceptronConfig>(&block.mixer)) return dense->d_hidden;
  return d_model;
}

void validate(const ModelConfig& config, std::string_view where) {
  check_stack(where, config, config.encoder.has_value());
  std::int64_t n_experts = count_experts(config);
  if (config.encoder) {
    const std::string encoder = std::string(where) + ", encoder";
    check_stack(encoder, *config.encoder, false);
    n_experts += count_experts(*config.encoder);
    if (is_bidirectional(config)) throw BadInput(where, "a decoder reads earlier tokens only");
    check_bridge(where, config);
    const bool fits = config.encoder->d_model == config.d_model && config.encoder->vocab_size == config.vocab_size;
    if (config.shared_embedding && !fits) {
      throw BadInput(encoder,
                     "a shared embedding requires the decoder's d_model and vocab_size ({} and {}), got {} and {}",
                     config.d_model, config.vocab_size, config.encoder->d_model, config.encoder->vocab_size);
    }
  }
  if (n_experts > kMaxExperts) throw BadInput(where, "expected at most {} experts, got {}", kMaxExperts, n_experts);
  if (config.head.tied && config.output_width() != config.d_model) {
    throw BadInput(where, "a tied head requires layers as wide as the embedding ({}), got {}", config.d_model,
                   config.output_width());
  }
  if (config.head.transform) check_norm(where, "the head's norm", config.head.transform->norm);
  check_number(where, "scale of the logits", config.head.scale);
  if (config.head.softcap) check_number(where, "final softcap", *config.head.softcap);
}

bool is_bidirectional(const StackConfig& config) {
  return std::any_of(config.blocks.begin(), config.blocks.end(), [](const BlockConfig& block) {
    if (const RecurrentConfig* const recurrent = block.recurrent()) return recurrent->bidirectional;
    return block.has_attention() && block.attention().bidirectional;
  });
}

bool has_stream(const StackConfig& config) {
  return std::all_of(config.blocks.begin(), config.blocks.end(),
                     [](const BlockConfig& block) { return block.has_attention(); });
}

bool has_sequence_rows(const ModelConfig& config) { return !config.encoder && has_stream(config); }

bool is_constant(const ModelConfig& config, std::string_view name) {
  if (name == "unembed.bias") return !config.head.is_bias_trained;
  if (!name.ends_with("pos_embed.weight")) return false;
  const StackConfig& stack = name.starts_with("encoder.") ? *config.encoder : config;
  return stack.embedding.sinusoid.has_value();
}

std::int64_t most_experts(const ModelConfig& config) {
  std::int64_t most = 0;
  for (const StackConfig* stack :
       {static_cast<const StackConfig*>(&config), config.encoder ? &*config.encoder : nullptr}) {
    if (stack == nullptr) continue;
    for (const BlockConfig& block : stack->blocks) {
      if (const auto* moe = std::get_if<MoeConfig>(&block.ffn)) most = std::max(most, moe->n_experts);
    }
  }
  return most;
}

std::vector<CacheLayerConfig> cache_layers(const ModelConfig& config) {
  std::vector<CacheLayerConfig> layers;
  if (is_bidirectional(config)) return layers;
  for (const BlockConfig& block : config.blocks) {
    if (const RecurrentConfig* const recurrent = block.recurrent()) {
      std::vector<StateConfig> states = {{"h", {recurrent->d_hidden}}};
      if (recurrent->has_c()) states.push_back({"c", {recurrent->d_hidden}});
      layers.emplace_back(std::move(states));
    } else if (block.has_attention()) {
      layers.push_back(
          KvLayerConfig{block.attention().n_kv_heads, block.attention().head_dim, block.attention().window});
    } else {
      layers.emplace_back();
    }
  }
  const std::int64_t context = config.embedding.context;
  if (context > 1) layers.front().states.push_back({"ids", {context - 1}, StateType::i32});  // the first layer is dense
  return layers;
}

std::vector<CacheLayerConfig> source_cache_layers(const ModelConfig& config) {
  std::vector<CacheLayerConfig> layers;
  for (const BlockConfig& block : config.blocks) {
    if (block.cross_attention) {
      layers.push_back(KvLayerConfig{block.cross_attention->n_kv_heads, block.cross_attention->head_dim, {}});
    }
    const RecurrentConfig* const recurrent = block.recurrent();
    if (recurrent != nullptr && recurrent->d_attention) {
      layers.push_back(KvLayerConfig{1, *recurrent->d_attention, {}, config.encoder->output_width()});
    }
  }
  return layers;
}

std::int64_t longest_planned_length(const ModelConfig& c, std::int64_t planned) {
  std::int64_t longest = c.max_seq_len;
  for (const BlockConfig& block : c.blocks) {
    const auto* const attention = std::get_if<AttentionConfig>(&block.mixer);
    if (attention == nullptr || !attention->rope) continue;
    const RopeScaling& scaling = attention->rope->scaling;
    if (const auto* const long_rope = std::get_if<LongRopeScaling>(&scaling)) {
      if (planned <= long_rope->original_max_seq_len) longest = std::min(longest, long_rope->original_max_seq_len);
    } else if (const auto* const dynamic = std::get_if<DynamicNtkScaling>(&scaling)) {
      longest = std::min(longest, std::max(planned, dynamic->original_max_seq_len));
    }
  }
  return longest;
}

}  // namespace vitrine
