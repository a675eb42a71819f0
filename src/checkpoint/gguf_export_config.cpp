// Writes a config as GGUF's keys, and checks that reading them gives the same config.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "checkpoint/gguf_architecture.h"
#include "model/norms.h"

namespace vitrine {
namespace {

/// The experts of the first layer that has any.
const MoeConfig* experts_of(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    if (const auto* moe = std::get_if<MoeConfig>(&block.ffn)) return moe;
  }
  return nullptr;
}

/// The RoPE that the keys without a suffix describe: of the first full layer that has one, else of the first layer
/// that has one.
const std::optional<RopeConfig>& main_rope(const ModelConfig& config) {
  const BlockConfig* found = nullptr;
  for (const BlockConfig& block : config.blocks) {
    if (!block.attention().rope) continue;
    if (!block.attention().window) return block.attention().rope;
    if (found == nullptr) found = &block;
  }
  return (found != nullptr ? *found : config.blocks.front()).attention().rope;
}

/// The first layer with a window.
const AttentionConfig* sliding_attention(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    if (block.attention().window) return &block.attention();
  }
  return nullptr;
}

/// n if exactly every n-th layer is full; empty if there is no such n.
std::optional<double> sliding_pattern(const ModelConfig& config) {
  const auto is_full = [](const BlockConfig& block) { return !block.attention().window; };
  const auto first = std::find_if(config.blocks.begin(), config.blocks.end(), is_full);
  const auto n = static_cast<std::size_t>(first - config.blocks.begin()) + 1;
  for (std::size_t layer = 0; layer < config.blocks.size(); ++layer) {
    if (is_full(config.blocks[layer]) != ((layer + 1) % n == 0)) return std::nullopt;
  }
  return first == config.blocks.end() ? std::nullopt : std::optional(static_cast<double>(n));
}

/// x for which 1 / x is `scale`, to the bit if there is such a float.
double divisor_of(float scale) {
  const float guess = 1.0f / scale;
  for (const float x : {guess, std::nextafter(guess, 0.0f), std::nextafter(guess, INFINITY)}) {
    if (1.0f / x == scale) return x;
  }
  return guess;
}

/// The value of the key with this word; empty if the config has no such value.
std::optional<double> value_of(const ModelConfig& config, std::string_view word) {
  const BlockConfig& block = config.blocks.front();
  const AttentionConfig& a = block.attention();
  const AttentionConfig* const sliding = sliding_attention(config);
  const MoeConfig* const moe = experts_of(config);
  const auto& rope = main_rope(config);
  const auto number = [](auto x) { return std::optional(static_cast<double>(x)); };
  const auto optional = [&](const auto& x) { return x ? number(*x) : std::nullopt; };
  if (word == "max_seq_len") return number(config.max_seq_len);
  if (word == "d_model") return number(config.d_model);
  if (word == "n_layers") return number(config.blocks.size());
  if (word == "n_heads") return number(a.n_heads);
  if (word == "n_kv_heads") return number(a.n_kv_heads);
  if (word == "head_dim") return number(a.head_dim);
  if (word.find("_eps") != word.npos) return norms_of(config).begin()->second.eps;  // check_round_trip: all have it
  if (word == "rope_theta" || word == "rotary_emb_base") return rope ? number(rope->theta) : std::nullopt;
  if (word == "window") return sliding != nullptr ? number(*sliding->window) : std::nullopt;
  if (word == "rope_local_base_freq") return sliding != nullptr ? number(sliding->rope->theta) : std::nullopt;
  if (word == "sliding_window_pattern") return sliding != nullptr ? sliding_pattern(config) : std::nullopt;
  if (word == "attn_logit_softcapping") return optional(a.softcap);
  if (word == "final_logit_softcapping") return optional(config.head.softcap);
  if (word == "attention_multiplier") return a.score_scale;
  if (word == "embedding_multiplier") return config.embedding.scale;
  if (word == "residual_multiplier") return block.residual_scale;
  if (word == "logit_scale") return config.head.scale;
  if (word == "logits_scaling") return divisor_of(config.head.scale);
  if (word == "use_parallel_residual") return block.residual == BlockConfig::Residual::parallel ? 1.0 : 0.0;
  if (word == "d_ff") return number((moe != nullptr ? moe->expert : std::get<DenseConfig>(block.ffn)).d_ff);
  if (word == "n_experts") return moe != nullptr ? number(moe->n_experts) : std::nullopt;
  if (word == "top_k") return moe != nullptr ? number(moe->top_k) : std::nullopt;
  if (word == "d_ff_expert") return moe != nullptr ? number(moe->expert.d_ff) : std::nullopt;
  if (word == "shared_expert_intermediate_size") {
    return moe != nullptr && moe->shared ? number(moe->shared->d_ff) : std::nullopt;
  }
  throw InternalError("gguf", "no value for the key {}", word);
}

/// Removes what differs by format alone.
void normalize(const GgufArchitecture& architecture, ModelConfig& config) {
  fold_weight_offsets(config);
  for (BlockConfig& block : config.blocks) {
    if (block.attention().rope) block.attention().rope->layout = architecture.layout;
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

/// The first part that differs; empty if none does.
std::string difference(const ModelConfig& a, const ModelConfig& b) {
  if (!(a.embedding == b.embedding)) return "the scale or positions of the embedding";
  if (!(a.head == b.head)) return "the head";
  if (!(a.final_norm == b.final_norm)) return "the final norm";
  for (std::size_t i = 0; i < a.blocks.size() && i < b.blocks.size(); ++i) {
    const std::string at = " of layer " + std::to_string(i);
    const AttentionConfig &x = a.blocks[i].attention(), &y = b.blocks[i].attention();
    if (x.score_scale != y.score_scale) return "the scale of attention scores" + at;
    if (x.softcap != y.softcap) return "the softcap of attention scores" + at;
    if (x.window != y.window) return "the attention window" + at;
    if (!(x.rope == y.rope)) return "RoPE" + at;
    if (!(x == y)) return "attention" + at;
    if (!(a.blocks[i].ffn == b.blocks[i].ffn)) return "the feed-forward" + at;
    if (!(a.blocks[i] == b.blocks[i])) return "the block" + at;
  }
  return a == b ? "" : "the sizes";
}

}  // namespace

const GgufArchitecture& gguf_architecture_of(std::string_view family, std::string_view where) {
  for (const GgufArchitecture& architecture : all_gguf_architectures()) {
    const auto& also = architecture.is_also;
    if (architecture.family == family || std::find(also.begin(), also.end(), family) != also.end()) return architecture;
  }
  throw Unsupported(where, "GGUF files of the family {} cannot be written yet", family);
}

GgufKeys gguf_config_keys(const GgufArchitecture& architecture, const ModelConfig& config) {
  GgufKeys keys;
  const auto full = [&](std::string_view name) { return std::string(architecture.name) + "." + std::string(name); };
  const auto add_size = [&](std::string_view name, auto n) { keys.add(full(name), static_cast<std::uint32_t>(n)); };
  const auto add_number = [&](std::string_view name, double x) { keys.add(full(name), static_cast<float>(x)); };
  for (const GgufKey& key : gguf_keys(architecture)) {
    const std::optional<double> value = value_of(config, key.word);
    if (!value || value == key.usual) continue;
    if (key.kind == GgufKey::Kind::number) {
      add_number(key.name, *value);
    } else if (key.kind == GgufKey::Kind::flag) {
      keys.add(full(key.name), *value != 0);
    } else {
      add_size(key.name, *value);
    }
    if (key.name == "attention.key_length") add_size("attention.value_length", *value);
  }
  add_size("vocab_size", config.vocab_size);
  const auto& rope = main_rope(config);
  if (!rope && architecture.may_lack_rope) keys.add(full(kRopeFinetuned), false);
  if (!rope) return keys;
  add_size("rope.dimension_count", rope->dim);
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
    if (rope->magnitude != static_cast<float>(proposed)) {
      add_number("rope.scaling.attn_factor", rope->magnitude / proposed);
    }
    if (ramp->beta_fast != 32) add_number("rope.scaling.yarn_beta_fast", ramp->beta_fast);
    if (ramp->beta_slow != 1) add_number("rope.scaling.yarn_beta_slow", ramp->beta_slow);
  }
  return keys;
}

std::vector<RopeTensor> rope_tensors(const ModelConfig& config) {
  const auto& rope = main_rope(config);
  if (!rope || std::holds_alternative<LinearScaling>(rope->scaling)) return {};
  if (std::holds_alternative<YarnScaling>(rope->scaling)) return {};
  if (const auto* listed = std::get_if<LongRopeScaling>(&rope->scaling)) {
    return {{kShortFactors, listed->short_factor}, {kLongFactors, listed->long_factor}};
  }
  const std::vector<float> plain = rope_frequency(rope->theta, rope->dim, std::monostate{});
  if (plain == rope->frequency) return {};
  std::vector<float> divisors;
  for (std::size_t i = 0; i < plain.size(); ++i) divisors.push_back(plain[i] / rope->frequency[i]);
  return {{"rope_freqs.weight", divisors}};
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
  normalize(architecture, config);
  normalize(architecture, read);
  for (std::size_t i = 0; i < config.blocks.size() && i < read.blocks.size(); ++i) {
    auto &ours = config.blocks[i].attention().rope, &theirs = read.blocks[i].attention().rope;
    if (ours && theirs) forgive_rounding(*ours, *theirs);
  }
  const std::string what = difference(config, read);
  if (what.empty()) return;
  throw Unsupported(where, "GGUF's architecture \"{}\" cannot express this model's config: {} would change",
                    architecture.name, what);
}

}  // namespace vitrine
