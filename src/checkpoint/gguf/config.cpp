// Reads a config from GGUF's keys: translates them to the family's config.json, which the family reads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error.h"
#include "checkpoint/gguf/architecture.h"
#include "checkpoint/gguf/file.h"
#include "checkpoint/gguf/heads.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/names.h"
#include "model/norms.h"

namespace vitrine {
namespace {

constexpr double kDefaultTheta = 10000;  // in every family

/// The keys of one architecture. Each is either read or refused by name.
class ArchitectureKeys {
 public:
  /// `allowed` lists keys to accept, whatever their values.
  ArchitectureKeys(const GgufMetadata& metadata, std::string_view architecture, const std::vector<std::string>& allowed)
      : metadata_(metadata), prefix_(std::string(architecture) + "."), allowed_(allowed) {}

  bool contains(std::string_view name) const { return metadata_.find(full(name)) != nullptr; }
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }

  /// From 1 to 2^31 − 1. A list has one size for each layer; all must be equal.
  std::optional<std::int64_t> size(std::string_view name) {
    const std::string key = use(name);
    const GgufValue* value = metadata_.find(key);
    if (value == nullptr) return std::nullopt;
    if (value->type != GgufType::array) return checked(key, metadata_.integer(key).value());
    const std::vector<std::int64_t> all = metadata_.integers(key).value();
    for (const std::int64_t other : all) {
      if (other != all.front()) throw Unsupported(where(), "{}: layers of different sizes are not supported", key);
    }
    if (all.empty()) throw BadCheckpoint(where(), "{}: expected a number, got an empty list", key);
    return checked(key, all.front());
  }
  /// A size, or a list of them.
  std::optional<Json> sizes(std::string_view name) {
    const std::string key = full(name);
    const GgufValue* const value = metadata_.find(key);
    if (value == nullptr || value->type != GgufType::array) {
      const auto one = size(name);
      return one ? std::optional<Json>(Json(*one)) : std::nullopt;
    }
    Json list = Json::array();
    const std::vector<std::int64_t> all = metadata_.integers(use(name)).value();
    for (const std::int64_t each : all) list.push_back(checked(key, each));
    return list;
  }
  /// Numbers from 0, or a list of them.
  std::optional<Json> counts(std::string_view name) {
    const std::string key = full(name);
    const GgufValue* const value = metadata_.find(key);
    const bool is_list = value != nullptr && value->type == GgufType::array;
    if (!is_list) {
      const auto one = count(name);
      return one ? std::optional<Json>(Json(*one)) : std::nullopt;
    }
    Json list = Json::array();
    const std::vector<std::int64_t> all = metadata_.integers(use(name)).value();
    for (const std::int64_t each : all) list.push_back(each == 0 ? each : checked(key, each));
    return list;
  }
  std::optional<std::int64_t> size_or_none(std::string_view name) {
    if (metadata_.integer(use(name)) == 0) return std::nullopt;
    return size(name);
  }
  std::optional<double> number(std::string_view name) {
    const std::string key = use(name);
    const auto value = metadata_.real(key);
    if (value && !std::isfinite(*value)) throw BadCheckpoint(where(), "{}: expected a number, got {}", key, *value);
    return value;
  }
  /// From 0 on.
  std::optional<std::int64_t> count(std::string_view name) {
    return metadata_.integer(use(name)) == 0 ? std::optional<std::int64_t>(0) : size(name);
  }
  std::optional<bool> flag(std::string_view name) { return metadata_.boolean(use(name)); }
  /// Empty unless the key has an array, of flags or of 0 and 1.
  std::optional<std::vector<bool>> flags(std::string_view name) {
    const std::string key = use(name);
    const GgufValue* const value = metadata_.find(key);
    if (value == nullptr || value->type != GgufType::array) return std::nullopt;
    if (value->element == GgufType::boolean) return metadata_.booleans(key);
    std::vector<bool> flags;
    const std::vector<std::int64_t> all = metadata_.integers(key).value();
    for (const std::int64_t each : all) {
      if (each != 0 && each != 1) throw BadCheckpoint(where(), "{}: expected a list of 0 and 1, got {}", key, each);
      flags.push_back(each == 1);
    }
    return flags;
  }
  /// A list of numbers, which may be infinite. Throws BadCheckpoint if it is absent, or has another length.
  std::vector<float> numbers(std::string_view name, std::size_t n) {
    const std::string key = use(name);
    auto all = metadata_.floats(key);
    if (!all || all->size() != n) throw BadCheckpoint(where(), "{}: expected {} numbers", key, n);
    return std::move(*all);
  }
  std::optional<std::string_view> text(std::string_view name) { return metadata_.string(use(name)); }

  void ignore(std::string_view name) { use(name); }
  /// The key, if present and not yet read, must be `expected`, which is what the engine computes.
  void expect(std::string_view name, std::int64_t expected, const char* why) {
    if (used_.contains(full(name))) return;
    const std::string key = use(name);
    const auto value = metadata_.integer(key);
    if (!value || *value == expected || is_allowed(key)) return;
    throw Unsupported(where(), "{}: expected {}{}, got {} (--allow-config-key {} computes as if it were so)", key,
                      expected, why, *value, key);
  }
  bool is_allowed(std::string_view key) const {
    return std::find(allowed_.begin(), allowed_.end(), key) != allowed_.end();
  }
  /// Throws Unsupported for a key that is unknown and not allowed.
  void finish() const {
    for (const auto& [key, value] : metadata_.values()) {
      if (!key.starts_with(prefix_) || used_.contains(std::string(key)) || is_allowed(key)) continue;
      throw Unsupported(where(),
                        "unknown key {}: it may change what the model computes (--allow-config-key {} accepts it)", key,
                        key);
    }
  }
  std::string_view where() const { return metadata_.path(); }

 private:
  std::string use(std::string_view name) { return *used_.insert(full(name)).first; }
  std::int64_t checked(const std::string& key, std::int64_t value) const {
    if (value >= 1 && value <= kMaxSize) return value;
    throw BadCheckpoint(where(), "{}: expected a size from 1 to {}, got {}", key, kMaxSize, value);
  }

  const GgufMetadata& metadata_;
  std::string prefix_;
  const std::vector<std::string>& allowed_;
  std::set<std::string> used_;
};

/// Reads LongRoPE's lists, which are tensors. Returns whether the file has them.
bool read_long_rope(const StoredTensors& tensors, double attn_factor, std::optional<std::int64_t> original,
                    Json& config) {
  const auto within = tensors.all.find(kShortFactors), beyond = tensors.all.find(kLongFactors);
  const bool has_within = within != tensors.all.end(), has_beyond = beyond != tensors.all.end();
  if (!has_within && !has_beyond) return false;
  if (!has_within || !has_beyond) {
    throw BadCheckpoint(tensors.where, "tensor {} is missing", has_within ? kLongFactors : kShortFactors);
  }
  config["rope_scaling"] = {{"rope_type", "longrope"},
                            {"short_factor", read_rope_factors(within->second, kShortFactors)},
                            {"long_factor", read_rope_factors(beyond->second, kLongFactors)},
                            {"attention_factor", attn_factor}};
  if (original) config["original_max_position_embeddings"] = *original;
  return true;
}

void read_rope_scaling(ArchitectureKeys& keys, const StoredTensors& tensors, Json& config) {
  const auto older = keys.number("rope.scale_linear");  // the same key in older files
  const auto attn_factor = keys.number("rope.scaling.attn_factor");
  const auto factor = keys.number("rope.scaling.factor");
  const auto original = keys.size("rope.scaling.original_context_length");
  const std::string type(keys.text("rope.scaling.type").value_or("linear"));
  const double by = factor ? *factor : older.value_or(1.0);
  if (read_long_rope(tensors, attn_factor.value_or(1), original, config)) return;
  if (type != "yarn" && attn_factor.value_or(1) != 1) {
    throw Unsupported(keys.where(), "{} is supported only with YaRN and LongRoPE",
                      keys.full("rope.scaling.attn_factor"));
  }
  if (type == "none" || (type == "linear" && (by == 1.0 || by == 0.0))) return;
  config["rope_scaling"] = {{"rope_type", type}, {"factor", by}};
  Json& scaling = config["rope_scaling"];
  if (original) scaling["original_max_position_embeddings"] = *original;
  if (type != "yarn") return;
  if (const auto fast = keys.number("rope.scaling.yarn_beta_fast")) scaling["beta_fast"] = *fast;
  if (const auto slow = keys.number("rope.scaling.yarn_beta_slow")) scaling["beta_slow"] = *slow;
  if (attn_factor) scaling["attention_factor"] = *attn_factor * yarn_magnitude(by);
  if (const auto whole = keys.number("rope.scaling.yarn_attn_factor")) scaling["attention_factor"] = *whole;
}

/// Copies the key's value, if present, to `word`.
void read_key(const GgufKey& key, const std::string& word, ArchitectureKeys& keys, Json& config) {
  const auto copy = [&](const auto& value) {
    if (value) config[word] = *value;
  };
  switch (key.kind) {
    case GgufKey::Kind::number:
      return copy(keys.number(key.name));
    case GgufKey::Kind::flag:
      return copy(keys.flag(key.name));
    case GgufKey::Kind::size:
      return copy(keys.size(key.name));
    case GgufKey::Kind::size_or_none:
      return copy(keys.size_or_none(key.name));
    case GgufKey::Kind::layer_sizes:
      return copy(keys.sizes(key.name));
    case GgufKey::Kind::count:
      return copy(keys.count(key.name));
    case GgufKey::Kind::layer_counts:
      return copy(keys.counts(key.name));
    case GgufKey::Kind::layers:
    case GgufKey::Kind::layer_flags: {
      const auto has_window = keys.flags(key.name);
      if (!has_window) return key.kind == GgufKey::Kind::layers ? copy(keys.size(key.name)) : void();
      for (const bool has : *has_window) config["layer_types"].push_back(has ? "sliding_attention" : "full_attention");
      return;
    }
    case GgufKey::Kind::layer_states:
      if (const auto has_state = keys.flags(key.name)) {
        for (const bool has : *has_state) config[word].push_back(has ? "linear_attention" : "full_attention");
      }
      return;
    case GgufKey::Kind::layer_ropes:
      if (const auto ropes = keys.flags(key.name)) config[word] = *ropes;
  }
}

/// The fraction of a head that RoPE rotates. Half an element is added so that its product with head_dim is not rounded
/// down to one element less.
std::optional<double> read_rotary_fraction(ArchitectureKeys& keys, std::int64_t head_dim) {
  const auto dim = keys.size("rope.dimension_count");
  if (!dim) return std::nullopt;
  if (*dim > head_dim) {
    throw BadCheckpoint(keys.where(), "{}: expected at most {} (head_dim), got {}", keys.full("rope.dimension_count"),
                        head_dim, *dim);
  }
  return std::min(1.0, (static_cast<double>(*dim) + 0.5) / static_cast<double>(head_dim));
}

constexpr std::string_view kFurtherLayers = "nextn_predict_layers";

/// block_count, and lists of what each layer has, include layers that predict further tokens.
void leave_out_further_layers(ArchitectureKeys& keys, Json& config, Json& n_layers) {
  const auto n_further = keys.size_or_none(kFurtherLayers);
  if (!n_further) return;
  if (*n_further >= n_layers) {
    throw BadCheckpoint(keys.where(), "{}: expected fewer than {} (block_count), got {}", keys.full(kFurtherLayers),
                        n_layers.dump(), *n_further);
  }
  Json types = config.value("layer_types", Json::array());
  if (types.size() == n_layers) {
    types.erase(types.end() - *n_further, types.end());
    config["layer_types"] = types;
  }
  n_layers = n_layers.get<std::int64_t>() - *n_further;
}

/// Where layers with a window have no table of RoPE of their own, the file may still say their theta.
void expect_one_theta(ArchitectureKeys& keys, const GgufArchitecture& architecture) {
  constexpr std::string_view kWindowTheta = "rope.freq_base_swa";
  const std::vector<GgufKey> own = gguf_keys(architecture);
  const auto reads = [&](std::string_view name) {
    return std::any_of(own.begin(), own.end(), [&](const GgufKey& key) { return key.name == name; });
  };
  if (reads(kWindowTheta) || !reads("rope.freq_base")) return;
  const auto own_theta = keys.number(kWindowTheta);
  const double theta = keys.number("rope.freq_base").value_or(kDefaultTheta);
  if (!own_theta || *own_theta == theta || keys.is_allowed(keys.full(kWindowTheta))) return;
  throw Unsupported(keys.where(),
                    "{}: expected {} (rope.freq_base), got {} (--allow-config-key {} computes as if it were so)",
                    keys.full(kWindowTheta), theta, *own_theta, keys.full(kWindowTheta));
}

/// The config.json of a file: the keys that correspond to its keys, and those that GGUF expresses in other ways.
Json read_words(const GgufArchitecture& architecture, const Family& family, ArchitectureKeys& keys,
                const StoredTensors& tensors) {
  Json config = Json::object();
  bool has_head_dim = false, has_rope = false;
  for (const GgufKey& key : gguf_keys(architecture)) {
    if (key.required && !keys.contains(key.name)) {
      throw BadCheckpoint(keys.where(), "key {} is missing", keys.full(key.name));
    }
    const std::string word = family.key_of(key.word);
    has_head_dim = has_head_dim || word == "head_dim";
    const bool is_theta = key.name == "rope.freq_base";
    has_rope = has_rope || is_theta;
    read_key(key, word, keys, config);
    if (is_theta && !config.contains(word)) config[word] = kDefaultTheta;
  }
  leave_out_further_layers(keys, config, config[family.key_of("n_layers")]);
  expect_one_theta(keys, architecture);
  const auto embedding = tensors.all.find("token_embd.weight");
  if (embedding == tensors.all.end()) throw BadCheckpoint(keys.where(), "tensor token_embd.weight is missing");
  config["vocab_size"] = embedding->second.shape.front();
  config["tie_word_embeddings"] = !tensors.all.contains("output.weight");
  const auto d_model = config[family.key_of("d_model")].get<std::int64_t>();
  const auto n_heads = config.value(family.key_of("n_heads"), std::int64_t{0});
  const std::int64_t head_dim = config.value("head_dim", n_heads > 0 ? d_model / n_heads : 0);
  if (has_head_dim && !config.contains("head_dim") && (n_heads == 0 || d_model % n_heads != 0)) {
    throw BadCheckpoint(keys.where(), "key {} is missing, and {} elements are not a multiple of {} heads",
                        keys.full("attention.key_length"), d_model, n_heads);
  }
  if (has_head_dim) config["head_dim"] = head_dim;
  if (has_rope) read_rope_scaling(keys, tensors, config);
  if (const std::string_view name = architecture.activation; !name.empty()) {
    if (const auto activation = keys.text(name)) config[std::string(name)] = *activation;
  }
  const std::string_view rotated = architecture.rotary_fraction;
  const auto fraction = rotated.empty() ? std::nullopt : read_rotary_fraction(keys, head_dim);
  if (fraction) config[std::string(rotated)] = *fraction;
  if (architecture.complete != nullptr) architecture.complete(config, tensors);
  return config;
}

/// Encoders attend both ways. A decoder that does so computes vectors, and has no windows.
void read_direction(const GgufArchitecture& architecture, ArchitectureKeys& keys, ModelConfig& model) {
  const std::string key = keys.full("attention.causal");
  const std::optional<bool> causal = keys.flag("attention.causal");
  const bool is_both_ways = is_bidirectional(model);
  if (keys.is_allowed(key) || (causal == false) == is_both_ways) return;
  if (is_both_ways && !causal && architecture.name == "gemma-embedding") return;  // which llama.cpp knows
  for (BlockConfig& block : model.blocks) {
    AttentionConfig* const attention = find<AttentionConfig>(block);
    if (!is_both_ways && attention != nullptr && !attention->window && !attention->kv_layer) {
      attention->bidirectional = true;
      continue;
    }
    throw Unsupported(keys.where(), "{}: expected {}, got {} (--allow-config-key {} computes as if it were so)", key,
                      !is_both_ways, causal ? (*causal ? "true" : "false") : "none, which is true", key);
  }
}

/// The head: labels, none, or that of tokens.
void read_head(const GgufArchitecture& architecture, const GgufMetadata& metadata, const StoredTensors& tensors,
               ArchitectureKeys& keys, ModelConfig& model) {
  model.task = read_gguf_head(architecture, metadata, tensors, model);
  if (model.task || architecture.is_encoder) keys.ignore(kClassifierPooling);  // of ModernBERT also without labels
  if (model.task) keys.ignore(kClassifierLabels);
  for (const char* const key : {"dense_2_feat_in", "dense_2_feat_out", "dense_3_feat_in", "dense_3_feat_out"}) {
    if (architecture.has_dense) keys.ignore(key);  // take_dense() compares them with the tensors
  }
  if (!model.task && !architecture.is_encoder) return;
  model.has_head = false;
  model.head = {};
  model.pooler.reset();
  if (architecture.adapt != nullptr) architecture.adapt(model, metadata, tensors);
  validate(model, keys.where());
}

}  // namespace

std::vector<float> read_rope_factors(const StoredTensor& tensor, std::string_view name) {
  if (tensor.type != DType::f32 || tensor.shape.size() != 1 || tensor.shape[0] > kMaxHeadDim) {
    throw BadCheckpoint(tensor.file, "tensor {}: expected at most {} F32 elements, got {} of {} bytes", name,
                        kMaxHeadDim, tensor.dtype, tensor.bytes.size());
  }
  std::vector<float> factors(static_cast<std::size_t>(tensor.shape[0]));
  std::memcpy(factors.data(), tensor.bytes.data(), factors.size() * sizeof(float));
  for (const float factor : factors) {
    if (factor > 0 && std::isfinite(factor)) continue;
    throw BadCheckpoint(tensor.file, "tensor {}: expected factors above 0, got {}", name, factor);
  }
  return factors;
}

void fold_weight_offsets(ModelConfig& config) {
  for_each_norm(config, [](NormConfig& norm) { norm.weight_offset = 0; });
}

void set_file_form(const GgufArchitecture& architecture, ModelConfig& config) {
  if (architecture.folds_factors) {
    if (unties_head(architecture, config)) config.head.tied = false;
    config.embedding.scale = config.head.scale = 1;
    for (BlockConfig& block : config.blocks) {
      for (Sublayer& sublayer : block.sublayers) sublayer.input_scale = sublayer.scale = 1;
      if (auto* const attention = find<AttentionConfig>(block)) attention->key_scale = 1;
      if (auto* const ffn = find<DenseConfig>(block)) ffn->gate_scale = ffn->out_scale = 1;
      if (auto* const mixer = find<Mamba2Config>(block)) mixer->factors = {};
    }
  }
  for (MambaConfig* mixer : every<MambaConfig>(config.blocks)) mixer->rates_are_logs = false;
  for (Mamba2Config* mixer : every<Mamba2Config>(config.blocks)) mixer->rates_are_logs = false;
  for (DeltaNetConfig* net : every<DeltaNetConfig>(config.blocks)) {
    net->rates_are_logs = false;
    net->heads_alternate = architecture.alternates_heads && net->n_heads != net->n_key_heads;
    if (net->projections == DeltaNetConfig::Projections::by_key_head) {
      net->projections = DeltaNetConfig::Projections::joined;
    }
  }
}

bool unties_head(const GgufArchitecture& architecture, const ModelConfig& config) {
  return architecture.folds_factors && config.head.tied && config.head.scale != config.embedding.scale;
}

GgufConfig read_gguf_config(const GgufArchitecture& architecture, const GgufMetadata& metadata,
                            const StoredTensors& tensors, const LoadOptions& options) {
  const Family family = gguf_family(architecture);
  ArchitectureKeys keys(metadata, architecture.name, options.allowed_config_keys);
  const Json config = read_words(architecture, family, keys, tensors);
  const std::int64_t n_further = keys.size_or_none(kFurtherLayers).value_or(0);
  ModelConfig model = read_model_config(family, config, std::string(metadata.path()), options.allowed_config_keys);

  if (architecture.has_gate_cutoffs) {
    const std::vector<float> cutoffs = keys.numbers(kGateCutoffs, model.blocks.size());
    for (std::size_t layer = 0; layer < cutoffs.size(); ++layer) {
      if (cutoffs[layer] != -INFINITY) find<DenseConfig>(model.blocks[layer])->gate_cutoff = cutoffs[layer];
    }
    validate(model, metadata.path());
  }
  keys.expect("vocab_size", model.vocab_size, " (the rows of token_embd.weight)");
  const std::vector<AttentionConfig*> attentions = every<AttentionConfig>(model.blocks);
  if (!attentions.empty()) {
    const AttentionConfig& attention = *attentions.front();
    keys.expect("attention.head_count_kv", attention.n_kv_heads, " (head_count)");
    keys.expect("attention.key_length", attention.head_dim, " (embedding_length over head_count)");
    keys.expect("attention.value_length", attention.width_of_values(), " as key_length");
  }
  const auto rotates =
      std::find_if(attentions.begin(), attentions.end(), [](const auto* a) { return a->rope.has_value(); });
  if (rotates != attentions.end()) {
    keys.expect("rope.dimension_count", (*rotates)->rope->dim, " (the elements that RoPE rotates)");
    const bool finetuned = keys.flag(kRopeFinetuned).value_or(true);
    if (architecture.may_lack_rope && !finetuned) {
      for (AttentionConfig* a : attentions) a->rope.reset();
    }
  }
  keys.expect("expert_count", 0, " (this architecture has no experts)");
  keys.expect("expert_used_count", 0, " (this architecture has no experts)");
  read_direction(architecture, keys, model);
  keys.ignore("tensor_data_layout");  // that q and k are permuted, as in all files of the architecture
  keys.ignore(kPoolingType);          // read with the vectors of texts
  read_head(architecture, metadata, tensors, keys, model);
  if (architecture.has_rope_sections) keys.ignore(kRopeSections);  // the positions of a text are all the same
  for (const std::string_view name : architecture.ignored) keys.ignore(name);
  keys.finish();
  std::optional<RopeConfig::Layout> published;
  if (rotates != attentions.end() && (*rotates)->rope) published = (*rotates)->rope->layout;
  apply_format(architecture, tensors, model);
  return {std::move(model), published, n_further};
}

}  // namespace vitrine
