#include "checkpoint/adapters/file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/nearest.h"
#include "checkpoint/gguf/file.h"
#include "checkpoint/hugging_face/config_json.h"
#include "kernels/kernels.h"
#include "quant/block_format.h"
#include "tokenizer/regex.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBase = "base_model.model.";

/// The keys of adapter_config.json that do not change what a finished adapter computes.
const std::set<std::string, std::less<>>& keys_without_effect() {
  static const std::set<std::string, std::less<>> keys = {"auto_mapping",      "base_model_name_or_path",
                                                          "corda_config",      "ensure_weight_tying",
                                                          "eva_config",        "exclude_modules",
                                                          "fan_in_fan_out",    "inference_mode",
                                                          "loftq_config",      "lora_dropout",
                                                          "lora_ga_config",    "megatron_config",
                                                          "megatron_core",     "peft_version",
                                                          "qalora_group_size", "revision",
                                                          "runtime_config",    "target_modules",
                                                          "task_type"};
  return keys;
}

/// The keys that this file reads.
const std::set<std::string, std::less<>>& known_keys() {
  static const std::set<std::string, std::less<>> keys = {"alpha_pattern",
                                                          "bias",
                                                          "init_lora_weights",
                                                          "layers_pattern",
                                                          "layers_to_transform",
                                                          "lora_alpha",
                                                          "modules_to_save",
                                                          "peft_type",
                                                          "r",
                                                          "rank_pattern",
                                                          "target_parameters",
                                                          "use_dora",
                                                          "use_rslora"};
  return keys;
}

/// Whether a key has the value that means nothing: null, false, or empty.
bool is_unset(const Json& value) {
  return value.is_null() || value == false || ((value.is_array() || value.is_object()) && value.empty());
}

/// A number for some modules, selected by a regex of their names.
struct Pattern {
  Regex regex;
  double value;
};

class PeftConfig {
 public:
  PeftConfig(const Json& json, std::string where) : where_(std::move(where)) {
    if (!json.is_object()) throw BadCheckpoint(where_, "expected a JSON object");
    const std::string type = json.value("peft_type", Json()).dump();
    if (type != "\"LORA\"") throw Unsupported(where_, "peft_type: expected \"LORA\", got {}", type);
    for (const auto& [key, value] : json.items()) {
      if (keys_without_effect().contains(key) || known_keys().contains(key) || is_unset(value)) continue;
      throw Unsupported(where_, "{}: {} is not supported", key, value.dump());
    }
    check_choice(json, "bias", {"none"});
    check_choice(json, "init_lora_weights", {"gaussian", "orthogonal", "eva"});  // others change the base
    rank_ = number(json, "r", 8);
    if (!(rank_ >= 1 && rank_ == std::floor(rank_))) throw BadCheckpoint(where_, "r: expected a rank, got {}", rank_);
    alpha_ = number(json, "lora_alpha", 8);
    rslora = flag(json, "use_rslora");
    dora = flag(json, "use_dora");
    ranks_ = patterns(json, "rank_pattern");
    alphas_ = patterns(json, "alpha_pattern");
    read_layers(json);
    parameters_ = names(json, "target_parameters");
    saved_ = names(json, "modules_to_save");
  }

  double rank_of(std::string_view module) const { return value_of(ranks_, module, rank_); }
  double alpha_of(std::string_view module) const { return value_of(alphas_, module, alpha_); }

  /// Whether target_parameters names this parameter: by its whole name, or its end from a dot on.
  bool is_parameter(const std::string& name) const {
    return std::any_of(parameters_.begin(), parameters_.end(),
                       [&](const std::string& target) { return name == target || name.ends_with("." + target); });
  }

  /// Whether a tensor belongs to a module that the file replaces as a whole.
  bool is_saved(const std::string& tensor) const {
    const auto belongs = [&](const std::string& module) {
      return ("." + tensor).find("." + module + ".") != tensor.npos;
    };
    return tensor.find("lora_") == tensor.npos && std::any_of(saved_.begin(), saved_.end(), belongs);
  }

  bool rslora = false, dora = false;
  std::optional<std::vector<std::int64_t>> layers;

 private:
  double number(const Json& json, const char* key, double otherwise) const {
    if (!json.contains(key)) return otherwise;
    const Json& value = json[key];
    if (!value.is_number() || !std::isfinite(value.get<double>())) {
      throw BadCheckpoint(where_, "{}: expected a number, got {}", key, value.dump());
    }
    return value.get<double>();
  }
  bool flag(const Json& json, const char* key) const {
    if (!json.contains(key) || json[key].is_null()) return false;
    if (!json[key].is_boolean())
      throw BadCheckpoint(where_, "{}: expected true or false, got {}", key, json[key].dump());
    return json[key].get<bool>();
  }
  void check_choice(const Json& json, const char* key, const std::vector<std::string>& accepted) const {
    const Json value = json.value(key, Json());
    if (value.is_null() || value.is_boolean()) return;
    const bool ok =
        value.is_string() && std::find(accepted.begin(), accepted.end(), value.get<std::string>()) != accepted.end();
    if (!ok) throw Unsupported(where_, "{}: {} is not supported", key, value.dump());
  }
  std::vector<Pattern> patterns(const Json& json, const char* key) const {
    std::vector<Pattern> result;
    const Json object = json.value(key, Json());
    if (object.is_null()) return result;
    if (!object.is_object()) throw BadCheckpoint(where_, "{}: expected an object, got {}", key, object.dump());
    for (const auto& [pattern, value] : object.items()) {
      const double x = number(object, pattern.c_str(), 0);
      result.push_back({Regex("^(?:.*\\.)?(?:" + pattern + ")$", RegexSyntax::rust, where_ + ", " + key), x});
    }
    return result;
  }
  void read_layers(const Json& json) {
    const Json value = json.value("layers_to_transform", Json());
    if (value.is_null()) return;
    layers.emplace();
    for (const Json& layer : value.is_array() ? value : Json::array({value})) {
      if (!layer.is_number_integer())
        throw BadCheckpoint(where_, "layers_to_transform: expected layers, got {}", value.dump());
      layers->push_back(layer.get<std::int64_t>());
    }
  }
  std::vector<std::string> names(const Json& json, const char* key) const {
    std::vector<std::string> list;
    const Json value = json.value(key, Json());
    if (value.is_null()) return list;
    for (const Json& name : value) {
      if (!value.is_array() || !name.is_string()) {
        throw BadCheckpoint(where_, "{}: expected names, got {}", key, value.dump());
      }
      list.push_back(name.get<std::string>());
    }
    return list;
  }
  static double value_of(const std::vector<Pattern>& patterns, std::string_view module, double otherwise) {
    for (const Pattern& pattern : patterns) {
      bool matches = false;
      pattern.regex.for_each_match(module, [&](Regex::Match) { matches = true; });
      if (matches) return pattern.value;
    }
    return otherwise;
  }

  std::string where_;
  double rank_ = 0, alpha_ = 0;
  std::vector<Pattern> ranks_, alphas_;
  std::vector<std::string> parameters_, saved_;
};

void check_finite(const std::string& where, const std::string& name, const StoredTensor& tensor) {
  constexpr std::int64_t kChunk = 1 << 14;
  if (!tensor.type) throw Unsupported(where, "tensor {} is {}; F32, F16 and BF16 are supported", name, tensor.dtype);
  std::int64_t n = 1;
  for (const std::int64_t size : tensor.shape) n *= size;
  std::vector<float> floats(static_cast<std::size_t>(std::min(n, kChunk)));
  for (std::int64_t first = 0; first < n; first += kChunk) {
    const std::int64_t count = std::min(kChunk, n - first);
    const std::byte* const from = tensor.bytes.data() + bytes_of(*tensor.type, first);
    if (is_blocks(*tensor.type)) {
      dequantize_row(*tensor.type, from, count, floats.data());
    } else {
      default_kernels().widen(from, *tensor.type, count, floats.data());
    }
    if (!default_kernels().all_finite(floats.data(), count)) {
      throw BadCheckpoint(where, "tensor {} holds a number that is infinite or NaN", name);
    }
  }
}

/// Which part of a module a tensor of a peft file is.
enum class Part : std::uint8_t { a, b, magnitudes, weight };

/// Splits `base_model.model.MODULE.lora_A.weight`.
std::pair<std::string, Part> module_of(const std::string& where, const std::string& tensor) {
  constexpr std::pair<std::string_view, Part> kEndings[] = {{".lora_A.weight", Part::a},
                                                            {".lora_B.weight", Part::b},
                                                            {".lora_magnitude_vector", Part::magnitudes},
                                                            {".lora_magnitude_vector.weight", Part::magnitudes},
                                                            {".base_layer.weight", Part::weight}};
  if (tensor.starts_with(kBase)) {
    const std::string name = tensor.substr(kBase.size());
    for (const auto& [ending, part] : kEndings) {
      if (name.ends_with(ending)) return {name.substr(0, name.size() - ending.size()), part};
    }
    const bool is_plain = name.ends_with(".weight") && name.find("lora_") == name.npos;
    if (is_plain) return {name.substr(0, name.size() - 7), Part::weight};
  }
  throw Unsupported(where,
                    "tensor {}: expected base_model.model.MODULE.lora_A.weight, .lora_B.weight or "
                    ".lora_magnitude_vector",
                    tensor);
}

/// What a module's matrices belong to.
struct Owner {
  std::string name;     ///< Of the module, or of a parameter of experts.
  std::string pattern;  ///< What rank_pattern and alpha_pattern match.
  bool is_parameter = false;
};

/// The owner of matrices that the file has under `module`: a parameter, if the module has several one of them.
Owner owner_of(const PeftConfig& config, const std::string& module) {
  std::string inner = module;
  std::size_t n_outside = 0;  // wrappers
  for (; inner.ends_with(kBaseLayer); ++n_outside) inner.resize(inner.size() - kBaseLayer.size());
  std::vector<std::string> wrapped;
  for (const std::string_view parameter : kExpertParameters) {
    std::string name = inner + "." + std::string(parameter);
    if (config.is_parameter(name)) wrapped.push_back(std::move(name));
  }
  if (n_outside < wrapped.size()) {
    const std::string& name = wrapped[wrapped.size() - 1 - n_outside];
    return {name, name, true};
  }
  const std::string weight = module + ".weight";  // of a linear map or a router
  return {module, config.is_parameter(weight) ? weight : module};
}

AdapterFile open_peft(const std::string& folder) {
  AdapterFile result{.path = folder, .format = "PEFT"};
  const fs::path weights = fs::path(folder) / "adapter_model.safetensors";
  std::error_code error;
  if (!fs::exists(weights, error) && fs::exists(fs::path(folder) / "adapter_model.bin", error)) {
    throw Unsupported(folder, "adapter_model.bin is a pickle, which can run any code: save it as safetensors");
  }
  const std::string config_path = (fs::path(folder) / "adapter_config.json").string();
  const PeftConfig config(read_json_file(config_path), config_path);
  const SafetensorsFile file = SafetensorsFile::open(weights.string());
  const std::string where = weights.string();
  result.storage.push_back(file.file());
  for (const auto& [name, tensor] : file.tensors()) {
    if (name.starts_with(kBase) && config.is_saved(name.substr(kBase.size()))) {
      check_finite(where, name, tensor);
      result.saved.emplace(name.substr(kBase.size()), tensor);
      continue;
    }
    const auto [module, part] = module_of(where, name);
    if (part == Part::weight) {
      result.copies.emplace(module, tensor);
      continue;
    }
    StoredLowRank& low = result.modules[module];
    if (part == Part::a) low.a = tensor;
    if (part == Part::b) low.b = tensor;
    if (part == Part::magnitudes) low.magnitudes = tensor;
  }
  std::map<std::string, StoredLowRank> modules;
  for (auto& [module, low] : result.modules) {
    check_low_rank(where, module, low);
    const Owner owner = owner_of(config, module);
    const double rank = config.rank_of(owner.pattern);
    const auto whole = static_cast<std::int64_t>(rank);
    if (owner.is_parameter ? low.rank % whole != 0 : low.rank != whole) {
      throw BadCheckpoint(where, "{}: expected rank {} by adapter_config.json{}, got {}", module, rank,
                          owner.is_parameter ? " for each expert" : "", low.rank);
    }
    low.is_parameter = owner.is_parameter;
    low.rank = whole;
    if (config.dora != low.magnitudes.has_value()) {
      throw BadCheckpoint(where, "{}: {} a magnitude vector, but use_dora is {}", module, config.dora ? "lacks" : "has",
                          config.dora);
    }
    low.alpha = config.alpha_of(owner.pattern);
    low.scale = low.alpha / (config.rslora ? std::sqrt(rank) : rank);
    modules.emplace(owner.name, std::move(low));
  }
  result.modules = std::move(modules);
  if (result.modules.empty()) throw BadCheckpoint(where, "expected low-rank matrices, got none");
  result.layers = config.layers;
  result.rslora = config.rslora;
  result.dora = config.dora;
  return result;
}

}  // namespace

void check_low_rank(const std::string& where, const std::string& name, StoredLowRank& low) {
  if (low.a.bytes.empty() || low.b.bytes.empty()) {
    throw BadCheckpoint(where, "{}: its matrix {} is missing", name, low.a.bytes.empty() ? "A" : "B");
  }
  const std::vector<std::int64_t>&a = low.a.shape, &b = low.b.shape;
  const bool fits = a.size() == b.size() && (a.size() == 2 || (a.size() == 3 && a[0] == b[0]));
  if (!fits || a[a.size() - 2] != b.back()) {
    throw BadCheckpoint(where, "{}: expected A [rank, in] and B [out, rank], got ranks {} and {}", name,
                        a.size() > 1 ? a[a.size() - 2] : 0, b.empty() ? 0 : b.back());
  }
  low.rank = b.back();
  check_finite(where, name + " (A)", low.a);
  check_finite(where, name + " (B)", low.b);
  if (!low.magnitudes) return;
  check_finite(where, name + " (magnitudes)", *low.magnitudes);
  if (low.magnitudes->shape.size() != 1 || low.magnitudes->shape[0] != b[b.size() - 2]) {
    throw BadCheckpoint(where, "{}: expected {} magnitudes, one for each row of B", name, b[b.size() - 2]);
  }
}

AdapterFile open_adapter(const std::string& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    throw BadInput(path, "no such file or folder{}", did_you_mean_file(path));
  }
  if (!fs::is_directory(status)) return open_gguf_adapter(path);
  if (!fs::exists(fs::path(path) / "adapter_config.json", error)) {
    throw BadInput(path, "expected an adapter: a folder with adapter_config.json and adapter_model.safetensors");
  }
  return open_peft(path);
}

AdapterFile open_gguf_adapter(const std::string& path) {
  const auto mapped = MappedFile::open(path);
  if (!mapped->text().starts_with("GGUF")) {
    throw BadInput(path, "expected an adapter: a PEFT folder or a GGUF file");
  }
  GgufModelFile file = open_gguf(mapped);
  const GgufMetadata& metadata = file.metadata;
  if (metadata.string("general.type").value_or("model") != "adapter") {
    throw BadInput(path, "expected an adapter, got a model (general.type)");
  }
  const std::string type(metadata.string("adapter.type").value_or(""));
  if (type != "lora") throw Unsupported(path, "adapter.type: expected \"lora\", got \"{}\"", type);
  AdapterFile result{.path = path, .format = "GGUF"};
  result.architecture = metadata.string("general.architecture").value_or("");
  const double alpha = metadata.real("adapter.lora.alpha").value_or(0);
  if (!std::isfinite(alpha)) throw BadCheckpoint(path, "adapter.lora.alpha: expected a number, got {}", alpha);
  for (const auto& [name, tensor] : file.tensors.all) {
    const bool is_a = name.ends_with(".lora_a"), is_b = name.ends_with(".lora_b");
    if (!is_a && !is_b) throw Unsupported(path, "tensor {}: expected NAME.lora_a or NAME.lora_b", name);
    StoredLowRank& low = result.modules[name.substr(0, name.size() - 7)];
    (is_a ? low.a : low.b) = tensor;
  }
  for (auto& [name, low] : result.modules) {
    check_low_rank(path, name, low);
    low.alpha = alpha != 0 ? alpha : static_cast<double>(low.rank);  // as in llama.cpp
    low.scale = low.alpha / static_cast<double>(low.rank);
  }
  if (result.modules.empty()) throw BadCheckpoint(path, "expected low-rank matrices, got none");
  result.storage = std::move(file.tensors.storage);
  return result;
}

}  // namespace vitrine
