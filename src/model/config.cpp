#include "model/config.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "base/error.h"
#include "model/checks.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMaxLayers = 10000;

void check_norms(std::string_view where, std::string_view sublayer, const SublayerNorms& norms, bool is_parallel) {
  if (norms.pre && norms.sum) {
    throw BadInput(where, "expected a norm before {} or one after the residual sum, got both", sublayer);
  }
  if (is_parallel && norms.sum) throw BadInput(where, "a parallel block has no norm after the residual sum");
  for (const std::optional<NormConfig>& norm : {norms.pre, norms.post, norms.sum}) {
    check_norm(where, std::string("a norm of ") + std::string(sublayer), norm);
  }
}

/// The sublayers of a block are in the order of their sites. One that reads what the sublayers before it have added has
/// sites after all of theirs.
void check_order(std::string_view where, const BlockConfig& c) {
  for (std::size_t i = 1; i < c.sublayers.size(); ++i) {
    const SublayerNames before = names_of(c.sublayers[i - 1]), own = names_of(c.sublayers[i]);
    const BlockSite at_before{0, Stack::only, before.is_cross}, at{0, Stack::only, own.is_cross};
    const Sublayer::Input input = c.sublayers[i].input;
    const bool is_serial = input == Sublayer::Input::stream || input == Sublayer::Input::corrected;
    if (precedes(is_serial ? at_before(before.out) : at_before(before.in), at(own.in))) continue;
    throw Unsupported(where, "a block with {} {} {}", before.role, is_serial ? "and then" : "next to", own.role);
  }
}

/// A block of a stack that reads an encoder's output, or none.
void check_block(std::string_view where, const BlockConfig& c, bool has_source) {
  if (c.sublayers.empty()) throw BadInput(where, "expected a block with sublayers");
  const bool is_parallel = c.is_parallel();
  for (const Sublayer& s : c.sublayers) {
    std::visit([&](const auto& kind) { check(where, kind); }, s.what);
    check_number(where, "input_scale", s.input_scale);
    check_number(where, "residual_scale", s.scale);
    check_number(where, "residual_sum_scale", s.sum_scale);
    const SublayerNames names = names_of(s);
    check_norms(where, names.role, s.norms, is_parallel);
    if (s.input == Sublayer::Input::previous && (&s == &c.sublayers.front() || s.norms.pre)) {
      throw BadInput(where, "a sublayer that shares the norm of the one before it has none of its own");
    }
    for (const Sublayer& other : c.sublayers) {
      const SublayerNames others = names_of(other);
      if (&other == &s || others.prefix != names.prefix) continue;
      throw BadInput(where, "expected one sublayer called {} in a block, got two", names.prefix);
    }
  }
  const auto has_state = [](const Sublayer& s) { return !cache_layer(s).states.empty(); };
  if (std::count_if(c.sublayers.begin(), c.sublayers.end(), has_state) > 1) {
    throw Unsupported(where, "a block with several sublayers that have states");
  }
  check_order(where, c);
  const bool has_cross = find<CrossAttentionConfig>(c) != nullptr;
  if (has_cross && is_parallel) throw BadInput(where, "a parallel block has no cross-attention");
  if (has_source && !has_cross) throw BadInput(where, "expected cross-attention in every layer");
  if (!has_source && has_cross) throw BadInput(where, "cross-attention requires an encoder");
}

void check_context(std::string_view where, const StackConfig& config) {
  const EmbeddingConfig& c = config.embedding;
  check_size(where, "context", c.context, kMaxSize / config.d_model);
  if (c.context == 1) return;
  if (config.layers.empty() || !std::holds_alternative<PerceptronConfig>(config.layers.front())) {
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
  if (c.width) check_size(where, "embedding_width", *c.width);
  if (c.projects_sum && (!c.width || c.context > 1)) throw BadInput(where, "projects_sum: expected an embedding_width");
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
  std::optional<std::int64_t> n_heads;
  for (const BlockConfig& block : config.blocks) {
    const auto* const attention = find<AttentionConfig>(block);
    if (attention == nullptr) continue;
    if (n_heads.value_or(attention->n_heads) != attention->n_heads) {
      throw BadInput(where, "a relative bias requires the same number of heads in all layers, got {} and {}", *n_heads,
                     attention->n_heads);
    }
    n_heads = attention->n_heads;
  }
  if (!n_heads) throw BadInput(where, "a relative bias requires attention within the stack");
}

/// The number of experts of all layers.
std::int64_t count_experts(const StackConfig& config) {
  std::int64_t n = 0;
  for (const BlockConfig& block : config.blocks) {
    if (const auto* moe = find<MoeConfig>(block)) n += moe->n_experts;
  }
  return n;
}

/// The layers that read the keys and values of an earlier one.
void check_shared_keys(std::string_view where, const StackConfig& config) {
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const AttentionConfig* const own = attention_of(config, i);
    if (own == nullptr || !own->kv_layer) continue;
    const auto from = *own->kv_layer;
    const bool is_earlier = from >= 0 && static_cast<std::size_t>(from) < i;
    const AttentionConfig* const source = is_earlier ? attention_of(config, static_cast<std::size_t>(from)) : nullptr;
    const bool fits = source != nullptr && !source->kv_layer && source->window == own->window &&
                      source->n_kv_heads == own->n_kv_heads && source->head_dim == own->head_dim &&
                      source->width_of_values() == own->width_of_values();
    if (fits) continue;
    throw BadInput(where,
                   "layer {} reads the keys and values of layer {}: expected an earlier layer with its own, and with "
                   "the same heads and window",
                   i, from);
  }
}

/// The inputs of per-layer embeddings, and the sublayers that read them.
void check_per_layer(std::string_view where, const StackConfig& config) {
  const std::int64_t width = per_layer_width(config);
  for (const BlockConfig& block : config.blocks) {
    const auto* const own = find<PerLayerConfig>(block);
    if ((own != nullptr ? own->width : 0) == width) continue;
    throw BadInput(where, "expected per-layer embeddings of one width in all layers, got {} and {}", width,
                   own != nullptr ? own->width : 0);
  }
  if (config.per_layer.has_value() != (width > 0)) {
    throw BadInput(where, "expected inputs of per-layer embeddings where layers read them");
  }
  if (!config.per_layer) return;
  const PerLayerInputConfig& c = *config.per_layer;
  check_size(where, "rows of the per-layer embeddings", c.vocab_size);
  check_size(where, "n_layers × width of per-layer embeddings", width * static_cast<std::int64_t>(config.n_layers()));
  for (const float factor : {c.scale, c.projection_scale, c.sum_scale}) {
    check_number(where, "factors of per-layer embeddings", factor);
  }
  check_norm(where, "the norm of per-layer embeddings", c.norm);
}

/// Several streams: in every block the last sublayer, and no other, reads what AltUp has corrected.
void check_altup(std::string_view where, const StackConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    for (const Sublayer& s : block.sublayers) {
      const bool is_last = config.altup.has_value() && &s == &block.sublayers.back();
      if ((s.input == Sublayer::Input::corrected) == is_last) continue;
      throw BadInput(where, "expected the last sublayer of each block, and no other, to read AltUp's correction");
    }
  }
  if (!config.altup) return;
  check(where, *config.altup, config.d_model);
  if (config.blocks.empty()) throw BadInput(where, "several streams require layers with a residual stream");
}

/// `source`: the encoder that the stack reads; null: none.
void check_layers(std::string_view where, const StackConfig& config, const StackConfig* source) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (config.layers[i].index() != config.layers.front().index()) {
      throw BadInput(where, "expected layers of one kind in a stack");
    }
    const LayerPlace place = layer_place(config, i, "", source);
    std::visit([&](const auto& kind) { check(where, kind, place); }, config.layers[i]);
  }
  if (config.blocks.size() == 1 && config.blocks.front().sublayers.empty()) return;  // a table of embeddings
  for (const BlockConfig& block : config.blocks) check_block(where, block, source != nullptr);
}

/// `source`: the encoder that the stack reads; null: none.
void check_stack(std::string_view where, const StackConfig& config, const StackConfig* source) {
  check_size(where, "d_model", config.d_model);
  check_size(where, "vocab_size", config.vocab_size);
  check_size(where, "max_seq_len", config.max_seq_len);
  check_size(where, "n_layers", static_cast<std::int64_t>(config.n_layers()), kMaxLayers);
  if (!config.blocks.empty() && !config.layers.empty()) {
    throw BadInput(where, "expected a residual stream in all layers, or in none");
  }
  check_embedding(where, config);
  check_norm(where, "final_norm", config.final_norm);
  check_context(where, config);
  check_layers(where, config, source);
  check_shared_keys(where, config);
  check_per_layer(where, config);
  check_altup(where, config);
  if (config.relative_bias) check_relative_bias(where, config);
}

/// The states that a recurrent decoder begins with.
void check_bridge(std::string_view where, const ModelConfig& config) {
  const StackConfig& encoder = *config.encoder;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const RecurrentConfig* const to = recurrent_layer(config, i);
    if (to == nullptr) return;
    if (!to->bridge) {
      if (recurrent_layer(config, 0)->d_attention) continue;
      throw BadInput(where,
                     "a recurrent decoder reads its encoder through a bridge or additive attention, got neither");
    }
    const RecurrentConfig* const from = recurrent_layer(encoder, i);
    if (from == nullptr || encoder.layers.size() != config.layers.size()) {
      throw BadInput(where, "a bridge requires a recurrent encoder of as many layers, {}, got {}", config.layers.size(),
                     encoder.layers.size());
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

bool BlockConfig::is_parallel() const {
  return sublayers.size() > 1 && std::none_of(sublayers.begin() + 1, sublayers.end(),
                                              [](const Sublayer& s) { return s.input == Sublayer::Input::stream; });
}

SublayerNames names_of(const Sublayer& sublayer) {
  return std::visit([](const auto& kind) { return names_of(kind); }, sublayer.what);
}

CacheLayerConfig cache_layer(const Sublayer& sublayer) {
  return std::visit([](const auto& kind) { return cache_layer(kind); }, sublayer.what);
}

SumSites sum_sites(const BlockConfig& block, std::size_t i) {
  if (i + 1 == block.sublayers.size()) return names_of(block.sublayers[i]).last;
  const Sublayer& next = block.sublayers[i + 1];
  SumSites sites = names_of(next).mid;
  const bool is_read = next.input == Sublayer::Input::stream || next.input == Sublayer::Input::corrected;
  if (!is_read && !block.sublayers[i].norms.sum) sites.sum.reset();
  return sites;
}

bool has_middle(const BlockConfig& c) {
  return std::any_of(c.sublayers.begin(), c.sublayers.end(), [&](const Sublayer& s) {
    return &s != &c.sublayers.front() && s.input == Sublayer::Input::stream && names_of(s).mid.sum == Site::resid_mid;
  });
}

int norm_number(const BlockConfig& block, std::size_t i) {
  const SublayerNames names = names_of(block.sublayers[i]);
  const bool after_cross = !names.is_cross && names.norm == 2 && find<CrossAttentionConfig>(block) != nullptr;
  return after_cross ? 3 : names.norm;
}

std::int64_t StackConfig::width_before(std::size_t i) const {
  if (i == 0 && !altup) return d_model * embedding.context;
  if (layers.empty()) return altup ? altup->n_streams * d_model : d_model;
  return std::visit([](const auto& layer) { return layer.width(); }, layers[i - 1]);
}

const RecurrentConfig* recurrent_layer(const StackConfig& config, std::size_t i) {
  return i < config.layers.size() ? std::get_if<RecurrentConfig>(&config.layers[i]) : nullptr;
}

const AttentionConfig* attention_of(const StackConfig& config, std::size_t i) {
  return i < config.blocks.size() ? find<AttentionConfig>(config.blocks[i]) : nullptr;
}

const AttendConfig* heads_of(const StackConfig& config, std::size_t i) {
  if (i >= config.blocks.size()) return nullptr;
  const AttendConfig* const latent = find<LatentAttentionConfig>(config.blocks[i]);
  return latent != nullptr ? latent : find<AttentionConfig>(config.blocks[i]);
}

const RopeConfig* rope_of(const BlockConfig& block) {
  if (const auto* const latent = find<LatentAttentionConfig>(block)) return &latent->rope;
  const auto* const attention = find<AttentionConfig>(block);
  return attention != nullptr && attention->rope ? &*attention->rope : nullptr;
}

std::int64_t max_heads(const StackConfig& config) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < config.n_layers(); ++i) {
    if (const AttendConfig* const heads = heads_of(config, i)) most = std::max(most, heads->n_heads);
  }
  return most;
}

LayerPlace layer_place(const StackConfig& stack, std::size_t i, const std::string& prefix, const StackConfig* source) {
  LayerPlace place{prefix, static_cast<std::int64_t>(i), stack.width_before(i)};
  if (source == nullptr) return place;
  place.d_source = source->output_width();
  if (const RecurrentConfig* const states = recurrent_layer(*source, i)) place.d_states = states->width();
  return place;
}

void validate(const ModelConfig& config, std::string_view where) {
  check_stack(where, config, config.encoder ? &*config.encoder : nullptr);
  std::int64_t n_experts = count_experts(config);
  if (config.encoder) {
    const std::string encoder = std::string(where) + ", encoder";
    check_stack(encoder, *config.encoder, nullptr);
    n_experts += count_experts(*config.encoder);
    if (is_bidirectional(config)) throw BadInput(where, "a decoder reads earlier tokens only");
    if (config.altup || config.encoder->altup) throw Unsupported(where, "several streams next to an encoder");
    check_bridge(where, config);
    const bool fits = config.encoder->embedding_width() == config.embedding_width() &&
                      config.encoder->vocab_size == config.vocab_size;
    if (config.shared_embedding && !fits) {
      throw BadInput(
          encoder, "a shared embedding requires the decoder's d_model and vocab_size ({} and {}), got {} and {}",
          config.embedding_width(), config.vocab_size, config.encoder->embedding_width(), config.encoder->vocab_size);
    }
  }
  if (n_experts > kMaxExperts) throw BadInput(where, "expected at most {} experts, got {}", kMaxExperts, n_experts);
  if (config.head.width) check_size(where, "head_width", *config.head.width);
  if (config.head.tied && config.head_width() != config.embedding_width()) {
    throw BadInput(where, "a tied head requires rows as wide as the embedding ({}), got {}", config.embedding_width(),
                   config.head_width());
  }
  if (config.head.transform) check_norm(where, "the head's norm", config.head.transform->norm);
  if (config.task && (config.encoder || config.has_head)) throw Unsupported(where, "a task next to a head of tokens");
  if (config.task) check(where, *config.task);
  check_number(where, "scale of the logits", config.head.scale);
  if (config.head.softcap) check_number(where, "final softcap", *config.head.softcap);
}

bool is_bidirectional(const StackConfig& config) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (const auto* const layer = recurrent_layer(config, i); layer != nullptr && layer->bidirectional) return true;
  }
  return std::any_of(config.blocks.begin(), config.blocks.end(), [](const BlockConfig& block) {
    const auto* const attention = find<AttentionConfig>(block);
    return find<ConvolutionConfig>(block) != nullptr || (attention != nullptr && attention->bidirectional);
  });
}

bool has_stream(const StackConfig& config) { return config.layers.empty(); }

bool can_begin_at(const StackConfig& config, std::size_t i) {
  for (std::size_t layer = i; layer < config.blocks.size(); ++layer) {
    const AttentionConfig* const attention = attention_of(config, layer);
    if (attention != nullptr && attention->kv_layer.value_or(layer) < static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

std::int64_t per_layer_width(const StackConfig& config) {
  const auto* const first = config.blocks.empty() ? nullptr : find<PerLayerConfig>(config.blocks.front());
  return first != nullptr ? first->width : 0;
}

bool has_sequence_rows(const ModelConfig& config) { return !config.encoder && has_stream(config); }

bool is_constant(const ModelConfig& config, std::string_view name) {
  if (name == "unembed.bias") return !config.head.is_bias_trained;
  if (is_correction(name) || name.ends_with(kScalarName)) return true;
  if (name.ends_with(".xielu_beta.weight") || name.ends_with(".xielu_eps.weight")) return true;
  if (!name.ends_with("pos_embed.weight")) return false;
  const StackConfig& stack = name.starts_with("encoder.") ? *config.encoder : config;
  return stack.embedding.sinusoid.has_value();
}

std::optional<float> limit_of(const ModelConfig& config, std::string_view name) {
  const bool is_coef = name.ends_with(".altup.predict.weight") || name.ends_with(".altup.correct.weight");
  return is_coef ? config.altup->coef_limit : std::nullopt;
}

std::int64_t max_experts(const ModelConfig& config) {
  std::int64_t most = 0;
  for (const StackConfig* stack :
       {static_cast<const StackConfig*>(&config), config.encoder ? &*config.encoder : nullptr}) {
    if (stack == nullptr) continue;
    for (const BlockConfig& block : stack->blocks) {
      if (const auto* moe = find<MoeConfig>(block)) most = std::max(most, moe->n_experts);
    }
  }
  return most;
}

std::vector<CacheLayerConfig> cache_layers(const ModelConfig& config) {
  std::vector<CacheLayerConfig> layers;
  if (is_bidirectional(config)) return layers;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    CacheLayerConfig& layer = layers.emplace_back();
    if (const RecurrentConfig* const recurrent = recurrent_layer(config, i)) layer = cache_layer(*recurrent);
  }
  for (const BlockConfig& block : config.blocks) {
    CacheLayerConfig& layer = layers.emplace_back();
    for (const Sublayer& sublayer : block.sublayers) {
      if (names_of(sublayer).is_cross) continue;  // in the cache of the source
      const CacheLayerConfig own = cache_layer(sublayer);
      if (own.kv) layer.kv = own.kv;
      layer.states.insert(layer.states.end(), own.states.begin(), own.states.end());
    }
  }
  const std::int64_t context = config.embedding.context;
  if (context > 1) layers.front().states.push_back({"ids", {context - 1}, StateType::i32});  // the first layer is dense
  return layers;
}

std::vector<CacheLayerConfig> source_cache_layers(const ModelConfig& config) {
  std::vector<CacheLayerConfig> layers;
  for (const BlockConfig& block : config.blocks) {
    if (const auto* const cross = find<CrossAttentionConfig>(block)) layers.push_back(cache_layer(*cross));
  }
  const RecurrentConfig* const first = recurrent_layer(config, 0);
  if (first != nullptr && first->d_attention) {
    layers.emplace_back(KvLayerConfig{1, *first->d_attention, {}, config.encoder->output_width()});
  }
  return layers;
}

std::int64_t longest_planned_length(const ModelConfig& c, std::int64_t planned) {
  std::int64_t longest = c.max_seq_len;
  for (const BlockConfig& block : c.blocks) {
    const RopeConfig* const rope = rope_of(block);
    if (rope == nullptr) continue;
    const RopeScaling& scaling = rope->scaling;
    if (const auto* const long_rope = std::get_if<LongRopeScaling>(&scaling)) {
      if (planned <= long_rope->original_max_seq_len) longest = std::min(longest, long_rope->original_max_seq_len);
    } else if (const auto* const dynamic = std::get_if<DynamicNtkScaling>(&scaling)) {
      longest = std::min(longest, std::max(planned, dynamic->original_max_seq_len));
    }
  }
  return longest;
}

}  // namespace vitrine
