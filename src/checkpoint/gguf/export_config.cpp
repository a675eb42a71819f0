// Writes a config as GGUF's keys, and checks that reading them gives the same config.
#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "checkpoint/gguf/architecture.h"
#include "checkpoint/gguf/heads.h"
#include "checkpoint/gguf/layer_kinds.h"
#include "model/describe.h"
#include "model/norms.h"

namespace vitrine {
namespace {

const AttentionConfig* first_attention(const ModelConfig& config) {
  const std::vector<const AttentionConfig*> all = attentions_of(config);
  return all.empty() ? nullptr : all.front();
}

/// The RoPE that the keys without a suffix describe: of the first full layer that has one, else of the first layer
/// that has one.
std::optional<RopeConfig> main_rope(const ModelConfig& config) {
  if (const auto* const latent = find<LatentAttentionConfig>(config.blocks.front())) return latent->rope;
  const AttentionConfig* found = nullptr;
  for (const AttentionConfig* const attention : attentions_of(config)) {
    if (!attention->rope) continue;
    if (!attention->window) return attention->rope;
    if (found == nullptr) found = attention;
  }
  return found != nullptr ? found->rope : std::nullopt;
}

/// The first layer with a window.
const AttentionConfig* sliding_attention(const ModelConfig& config) {
  for (const AttentionConfig* const attention : attentions_of(config)) {
    if (attention->window) return attention;
  }
  return nullptr;
}

std::vector<bool> layers_with_window(const ModelConfig& config) {
  std::vector<bool> flags;
  for (const AttentionConfig* const attention : attentions_of(config)) flags.push_back(attention->window.has_value());
  return flags;
}

std::vector<bool> layers_with_rope(const ModelConfig& config) {
  std::vector<bool> flags;
  for (const AttentionConfig* const attention : attentions_of(config)) flags.push_back(attention->rope.has_value());
  return flags;
}

std::vector<bool> layers_with_state(const ModelConfig& config) {
  std::vector<bool> flags;
  for (const BlockConfig& block : config.blocks) {
    flags.push_back(find<AttentionConfig>(block) == nullptr && find<LatentAttentionConfig>(block) == nullptr);
  }
  return flags;
}

/// n if exactly every n-th layer has no state; empty if there is no such n.
std::optional<double> attention_interval(const ModelConfig& config) {
  const std::vector<bool> has_state = layers_with_state(config);
  const auto first = std::find(has_state.begin(), has_state.end(), false);
  const auto n = static_cast<std::size_t>(first - has_state.begin()) + 1;
  for (std::size_t layer = 0; layer < has_state.size(); ++layer) {
    if (has_state[layer] == ((layer + 1) % n == 0)) return std::nullopt;
  }
  return first == has_state.end() ? std::nullopt : std::optional(static_cast<double>(n));
}

/// The elements of the dense FFN of each layer, those of the FFN or of an expert of each (`width_of_block`), or the K/V
/// heads. 0: it has none.
std::vector<std::int32_t> sizes_of_layers(const ModelConfig& config, std::string_view word) {
  std::vector<std::int32_t> sizes;
  for (const BlockConfig& block : config.blocks) {
    const auto* const moe = find<MoeConfig>(block);
    const auto* const dense = moe != nullptr && moe->shared ? &*moe->shared : find<DenseConfig>(block);
    const auto* const attention = find<AttentionConfig>(block);
    const bool is_latent = find<LatentAttentionConfig>(block) != nullptr;  // its rows are those of one head
    std::int64_t size = attention != nullptr ? attention->n_kv_heads : is_latent ? 1 : 0;
    if (word == "d_ff") size = dense != nullptr ? dense->d_ff : 0;
    if (word == "width_of_block") size = moe != nullptr ? moe->expert.d_ff : dense != nullptr ? dense->d_ff : 0;
    sizes.push_back(static_cast<std::int32_t>(size));
  }
  return sizes;
}

/// −∞ where a layer has none.
std::vector<float> gate_cutoffs(const ModelConfig& config) {
  std::vector<float> all;
  for (const BlockConfig& block : config.blocks)
    all.push_back(find<DenseConfig>(block)->gate_cutoff.value_or(-INFINITY));
  return all;
}

/// What keys for one of two kinds of layers, with a window and full ones, have.
std::optional<double> value_of_kind(const ModelConfig& config, std::string_view word) {
  const AttentionConfig* const sliding = sliding_attention(config);
  const std::vector<const AttentionConfig*> all = attentions_of(config);
  const auto full = std::find_if(all.begin(), all.end(), [](const auto* attention) { return !attention->window; });
  if (word == "head_dim" && sliding != nullptr) return static_cast<double>(sliding->head_dim);
  if (word == "global_head_dim" && full != all.end()) return static_cast<double>((*full)->head_dim);
  if (word == "rotary_dim_of_window" && sliding != nullptr && sliding->rope) {
    return static_cast<double>(sliding->rope->dim);
  }
  if (config.altup && word == "altup_num_inputs") return static_cast<double>(config.altup->n_streams);
  if (config.altup && word == "altup_active_idx") return static_cast<double>(config.altup->active);
  if (word == "hidden_size_per_layer_input") return static_cast<double>(per_layer_width(config));
  if (word != "num_kv_shared_layers") return {};
  return static_cast<double>(
      std::count_if(all.begin(), all.end(), [](const auto* attention) { return attention->kv_layer.has_value(); }));
}

/// The context of files of models without a limit.
constexpr std::int64_t kMostContext = 1 << 20;

/// x for which 1 / x is `scale`, to the bit if there is such a float.
double divisor_of(float scale) {
  const float guess = 1.0f / scale;
  for (const float x : {guess, std::nextafter(guess, 0.0f), std::nextafter(guess, INFINITY)}) {
    if (1.0f / x == scale) return x;
  }
  return guess;
}

/// Whether each layer has experts.
std::vector<bool> layers_with_experts(const ModelConfig& config) {
  std::vector<bool> flags;
  for (const BlockConfig& block : config.blocks) flags.push_back(find<MoeConfig>(block) != nullptr);
  return flags;
}

/// The layers before the first that has experts.
std::int64_t count_dense(const ModelConfig& config) {
  const std::vector<bool> has = layers_with_experts(config);
  return std::find(has.begin(), has.end(), true) - has.begin();
}

/// The number of layers from one with experts to the next.
std::int64_t step_of_experts(const ModelConfig& config) {
  const std::vector<bool> has = layers_with_experts(config);
  const auto first = has.begin() + count_dense(config);
  if (first == has.end()) return 1;
  const auto next = std::find(first + 1, has.end(), true);
  return next == has.end() ? 1 : next - first;
}

/// What the sublayers say: that of experts, if there are any; of `d_ff`, that of a dense layer, if there is any.
std::optional<double> value_of_sublayers(const ModelConfig& config, std::string_view word) {
  std::optional<double> value;
  for (const BlockConfig& block : config.blocks) {
    for (const Sublayer& sublayer : block.sublayers) {
      const auto own = std::visit([&](const auto& kind) { return gguf_word(kind, word); }, sublayer.what);
      const bool wins = std::holds_alternative<MoeConfig>(sublayer.what) != (word == "d_ff");
      if (own && (!value || wins)) value = own;
    }
  }
  return value;
}

/// The number of layers before the first that has experts.
std::size_t n_leading_dense(const ModelConfig& config) {
  const auto first = std::find_if(config.blocks.begin(), config.blocks.end(),
                                  [](const BlockConfig& block) { return find<MoeConfig>(block) != nullptr; });
  return static_cast<std::size_t>(first - config.blocks.begin());
}

/// The eps of the norms: a file has one for all, but those of latents. check_round_trip refuses a model in which one
/// has another.
std::optional<double> eps_of_norms(const ModelConfig& config) {
  if (config.final_norm) return config.final_norm->eps;
  const NormsByName norms = norms_of(config);
  return norms.empty() ? std::nullopt : std::optional<double>(norms.begin()->second.eps);
}

/// The value of the key with this word; empty if the config has no such value.
std::optional<double> value_of(const ModelConfig& config, std::string_view word) {
  const BlockConfig& block = config.blocks.front();
  const AttentionConfig* const sliding = sliding_attention(config);
  const auto rope = main_rope(config);
  const auto number = [](auto x) { return std::optional(static_cast<double>(x)); };
  if (word == "max_seq_len") return number(config.max_seq_len);
  if (word == "context_or_most") return number(std::min(config.max_seq_len, kMostContext));
  if (word == "d_model") return number(config.d_model);
  if (word == "n_layers") return number(config.n_layers());
  if (word == "first_k_dense_replace") return number(n_leading_dense(config));
  if (word.find("_eps") != word.npos) return eps_of_norms(config);
  if (word == "rope_theta" || word == "rotary_emb_base" || word == "global_rope_theta")
    return rope ? number(rope->theta) : std::nullopt;
  if (word == "first_k_dense_replace" || word == "num_dense_layers" || word == "moe_layer_start_index") {
    return number(count_dense(config));
  }
  if (word == "moe_layer_interval") return number(step_of_experts(config));
  if (word == "window") return sliding != nullptr ? number(*sliding->window) : std::nullopt;
  const bool is_symmetric = word == "local_attention" || word == "sliding_window";  // the half reaches each way
  if (is_symmetric) return sliding != nullptr ? number(2 * (*sliding->window - 1)) : std::nullopt;
  if (word == "rope_local_base_freq" || word == "local_rope_theta")
    return sliding != nullptr ? number(sliding->rope->theta) : std::nullopt;
  if (word == "sliding_window_pattern") return sliding != nullptr ? sliding_pattern(config) : std::nullopt;
  if (word == "global_attn_every_n_layers") return dense_first_pattern(config);
  if (word == "full_attention_interval") return attention_interval(config);
  if (word == "softcap_or_zero") return number(config.head.softcap.value_or(0));
  if (word == "final_logit_softcapping") return config.head.softcap ? number(*config.head.softcap) : std::nullopt;
  if (word == "embedding_multiplier") return config.embedding.scale;
  if (word == "residual_multiplier") return block.sublayers.front().scale;
  if (word == "logit_scale") return config.head.scale;
  if (word == "logits_scaling") return divisor_of(config.head.scale);
  if (word == "use_parallel_residual") return block.is_parallel() ? 1.0 : 0.0;
  if (word == "shared_expert_intermediate_size" && count_dense(config) == std::ssize(config.blocks)) word = "d_ff";
  const auto of_kind = value_of_kind(config, word);
  return of_kind ? of_kind : value_of_sublayers(config, word);
}

/// Removes what differs by format alone.
void normalize(const GgufArchitecture& architecture, ModelConfig& config) {
  fold_weight_offsets(config);
  set_file_form(architecture, config);
  if (!config.has_head) {
    config.head = {};
    config.pooler.reset();
  }
  if (config.task) config.task->pad_id.reset();  // texts are read without padding
  if (architecture.is_encoder) {
    config.embedding.first_position = 0;  // rows of the table that no text reads are left out
    config.embedding.uncounted_id.reset();
    config.embedding.untrained_id.reset();  // of training
  }
  if (config.altup) config.altup->coef_limit.reset();  // of training
  if (config.per_layer) config.per_layer->vocab_size = std::max(config.per_layer->vocab_size, config.vocab_size);
  for (BlockConfig& block : config.blocks) {
    auto* const attention = find<AttentionConfig>(block);
    if (attention != nullptr && attention->rope) attention->rope->layout = architecture.layout;
    if (auto* const latent = find<LatentAttentionConfig>(block)) latent->keys_apart = architecture.splits_kv_b;
  }
}

/// If the frequencies agree within a few units in the last place, copies those of `config` to `read`.
void forgive_rounding(const RopeConfig& config, RopeConfig& read) {
  if (config.frequency.size() != read.frequency.size()) return;
  for (std::size_t i = 0; i < read.frequency.size(); ++i) {
    if (std::abs(config.frequency[i] - read.frequency[i]) > 3e-7F * std::abs(config.frequency[i])) return;
  }
  if (std::holds_alternative<Llama3Scaling>(config.scaling)) read.scaling = config.scaling;
  read.frequency = config.frequency;
  if (static_cast<float>(config.theta) == static_cast<float>(read.theta)) read.theta = config.theta;
}

/// The same for RoPE of all kinds of attention, and the scale of scores with YaRN's factor.
void forgive_rounding(const BlockConfig& config, BlockConfig& read) {
  const auto* const ours = find<AttentionConfig>(config);
  auto* const theirs = find<AttentionConfig>(read);
  if (ours != nullptr && ours->rope && theirs != nullptr && theirs->rope) forgive_rounding(*ours->rope, *theirs->rope);
  const auto* const latent = find<LatentAttentionConfig>(config);
  auto* const other = find<LatentAttentionConfig>(read);
  if (latent == nullptr || other == nullptr) return;
  forgive_rounding(latent->rope, other->rope);
  const bool is_same = std::abs(latent->score_scale - other->score_scale) <= 3e-7F * latent->score_scale;
  if (is_same) other->score_scale = latent->score_scale;
}

}  // namespace

namespace {

/// `config` is null where just the family is known.
const GgufArchitecture& find_architecture(std::string_view family, const ModelConfig* config, std::string_view where) {
  for (const GgufArchitecture& architecture : all_gguf_architectures()) {
    const auto& also = architecture.is_also;
    const bool is_own = architecture.family == family || std::find(also.begin(), also.end(), family) != also.end();
    const bool fits = config == nullptr || architecture.written_for == nullptr || architecture.written_for(*config);
    if (is_own && fits) return architecture;
  }
  throw Unsupported(where, "GGUF files of the family {} cannot be written yet", family);
}

}  // namespace

const GgufArchitecture& gguf_architecture_of(const Checkpoint& checkpoint, std::string_view where) {
  return find_architecture(checkpoint.family, &checkpoint.model->config(), where);
}

const GgufArchitecture& gguf_architecture_of(std::string_view family, std::string_view where) {
  return find_architecture(family, nullptr, where);
}

std::optional<std::int64_t> leave_out_windows(const GgufArchitecture& architecture, ModelConfig& config) {
  const std::vector<GgufKey> keys = gguf_keys(architecture);
  const auto is_of_windows = [](const GgufKey& key) {
    return key.word == "window" || key.word == "sliding_window" || key.word == "local_attention";
  };
  if (std::any_of(keys.begin(), keys.end(), is_of_windows)) return {};
  std::optional<std::int64_t> smallest;
  for (BlockConfig& block : config.blocks) {
    AttentionConfig* const attention = find<AttentionConfig>(block);
    if (attention == nullptr || !attention->window) continue;
    smallest = std::min(smallest.value_or(*attention->window), *attention->window);
    attention->window.reset();
  }
  if (!smallest || config.max_seq_len <= *smallest) return {};
  config.max_seq_len = *smallest;
  return smallest;
}

namespace {

/// One number if all layers have the same size.
void add_layer_sizes(GgufKeys& keys, const std::string& name, const std::vector<std::int32_t>& sizes) {
  const bool are_equal = std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end();
  if (are_equal) {
    keys.add(name, static_cast<std::uint32_t>(sizes.front()));
  } else {
    keys.add(name, sizes);
  }
}

}  // namespace

GgufKeys gguf_config_keys(const GgufArchitecture& architecture, const ModelConfig& config) {
  GgufKeys keys;
  const auto full = [&](std::string_view name) { return std::string(architecture.name) + "." + std::string(name); };
  const auto add_size = [&](std::string_view name, auto n) { keys.add(full(name), static_cast<std::uint32_t>(n)); };
  const auto add_number = [&](std::string_view name, double x) { keys.add(full(name), static_cast<float>(x)); };
  const std::vector<GgufKey> own = gguf_keys(architecture);
  const auto has = [&](std::string_view name) {
    return std::any_of(own.begin(), own.end(), [&](const GgufKey& key) { return key.name == name; });
  };
  const auto writes = [&](std::string_view name) {
    return std::any_of(own.begin(), own.end(),
                       [&](const GgufKey& key) { return key.name == name && value_of(config, key.word); });
  };
  for (const GgufKey& key : own) {
    if (key.kind == GgufKey::Kind::layer_flags) {
      keys.add(full(key.name), layers_with_window(config));
      continue;
    }
    if (key.kind == GgufKey::Kind::layer_ropes) {
      const std::vector<bool> ropes = layers_with_rope(config);
      const bool has_all = std::all_of(ropes.begin(), ropes.end(), std::identity());
      if (!has_all) keys.add(full(key.name), ropes);
      continue;
    }
    if (key.kind == GgufKey::Kind::layer_states) {
      keys.add(full(key.name), layers_with_state(config));
      continue;
    }
    if (key.kind == GgufKey::Kind::layer_counts) {
      keys.add(full(key.name), sizes_of_layers(config, key.word));
      continue;
    }
    if (key.kind == GgufKey::Kind::layer_sizes) {
      add_layer_sizes(keys, full(key.name), sizes_of_layers(config, key.word));
      continue;
    }
    std::optional<double> value = value_of(config, key.word);
    if (!value && key.kind == GgufKey::Kind::count && key.required) value = 0;
    const bool is_usual = value == key.usual;
    if (!value || (is_usual && key.kind != GgufKey::Kind::layers)) continue;
    if (is_usual) {
      keys.add(full(key.name), layers_with_window(config));
    } else if (key.kind == GgufKey::Kind::number) {
      add_number(key.name, *value);
    } else if (key.kind == GgufKey::Kind::flag) {
      keys.add(full(key.name), *value != 0);
    } else {
      add_size(key.name, *value);
    }
    const AttentionConfig* const attention = first_attention(config);
    if (key.name == "attention.key_length" && attention != nullptr && !writes("attention.value_length")) {
      add_size("attention.value_length", attention->value_dim ? static_cast<double>(*attention->value_dim) : *value);
    }
    if (key.name == "attention.key_length_swa") add_size("attention.value_length_swa", *value);
  }
  if (architecture.has_gate_cutoffs) keys.add(full(kGateCutoffs), gate_cutoffs(config));
  add_size("vocab_size", config.vocab_size);
  if (is_bidirectional(config)) keys.add(full("attention.causal"), false);
  const std::optional<RopeConfig> rope = main_rope(config);
  if (!rope && architecture.may_lack_rope) keys.add(full(kRopeFinetuned), false);
  if (rope && architecture.chosen_by == kRopeFinetuned) keys.add(full(kRopeFinetuned), true);
  if (!rope) return keys;
  if (!has("rope.dimension_count")) add_size("rope.dimension_count", rope->dim);
  if (architecture.has_rope_sections) {
    const auto n = static_cast<std::int32_t>(rope->dim / 2);  // pairs: text, row and column in turn
    keys.add(full(kRopeSections), std::vector<std::int32_t>{(n + 2) / 3, (n + 1) / 3, n / 3, 0});
  }
  if (const auto* linear = std::get_if<LinearScaling>(&rope->scaling)) {
    keys.add(full("rope.scaling.type"), "linear");
    add_number("rope.scaling.factor", linear->factor);
  }
  if (const auto* listed = std::get_if<LongRopeScaling>(&rope->scaling)) {
    add_size("rope.scaling.original_context_length", listed->original_max_seq_len);
    add_number("rope.scaling.attn_factor", rope->magnitude);
  }
  if (const auto* ramp = std::get_if<YarnScaling>(&rope->scaling)) {
    keys.add(full("rope.scaling.type"), "yarn");
    add_number("rope.scaling.factor", ramp->factor);
    add_size("rope.scaling.original_context_length", ramp->original_max_seq_len);
    const double proposed = yarn_magnitude(ramp->factor);
    const bool is_latent = first_attention(config) == nullptr;  // it has the magnitude by the scale of its scores
    if (rope->magnitude != static_cast<float>(proposed) && !is_latent) {
      add_number("rope.scaling.attn_factor", rope->magnitude / proposed);
    }
    if (ramp->beta_fast != 32) add_number("rope.scaling.yarn_beta_fast", ramp->beta_fast);
    if (ramp->beta_slow != 1) add_number("rope.scaling.yarn_beta_slow", ramp->beta_slow);
  }
  return keys;
}

std::vector<RopeTensor> rope_tensors(const ModelConfig& config) {
  const std::optional<RopeConfig> rope = main_rope(config);
  if (!rope || std::holds_alternative<LinearScaling>(rope->scaling)) return {};
  if (std::holds_alternative<YarnScaling>(rope->scaling)) return {};
  if (const auto* listed = std::get_if<LongRopeScaling>(&rope->scaling)) {
    return {{kShortFactors, listed->short_factor}, {kLongFactors, listed->long_factor}};
  }
  const std::vector<float> plain = rope_frequency(rope->theta, rope->dim, std::monostate{});
  if (plain == rope->frequency) return {};
  std::vector<float> divisors;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    divisors.push_back(rope->frequency[i] == 0 ? kNoRotation : plain[i] / rope->frequency[i]);
  }
  return {{kRopeDivisors, divisors}};
}

void check_round_trip(const GgufArchitecture& architecture, const std::string& header,
                      const std::vector<RopeTensor>& rope, ModelConfig config, std::string_view where) {
  const GgufMetadata metadata = GgufMetadata::parse(std::as_bytes(std::span(header)), where);
  StoredTensors tensors;
  for (const GgufTensor& tensor : metadata.contents().tensors) {
    StoredTensor& stored = tensors.all[std::string(tensor.name)];
    stored.shape = tensor.shape;
    stored.type = DType::f32;
    for (const RopeTensor& other : rope) {
      if (tensor.name == other.name) stored.bytes = std::as_bytes(std::span(other.values));
    }
  }
  ModelConfig read = read_gguf_config(architecture, metadata, tensors, {}).model;
  if (!config.has_head) read.has_head = false;  // a tied head has no tensor
  normalize(architecture, config);
  normalize(architecture, read);
  for (std::size_t i = 0; i < config.n_layers() && i < read.n_layers(); ++i) {
    if (i < config.blocks.size()) forgive_rounding(config.blocks[i], read.blocks[i]);
  }
  const std::string what = first_difference(config, read);
  const std::string_view misread =
      what.empty() && architecture.misread != nullptr ? architecture.misread(config) : std::string_view();
  if (!misread.empty()) {
    throw Unsupported(where, "llama.cpp's architecture \"{}\" has no place for this model's config: {} would change",
                      architecture.name, misread);
  }
  if (what.empty()) return;
  throw Unsupported(where, "GGUF's architecture \"{}\" cannot express this model's config, which would change: {}",
                    architecture.name, what);
}

}  // namespace vitrine
