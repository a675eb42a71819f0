#include "checkpoint/hugging_face/wrapper.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/hugging_face/config_reader.h"

namespace vitrine {
namespace {

const Wrapper* wrapper_of(const Json& config) {
  if (!config.is_object() || !config.contains("model_type")) return nullptr;
  for (const Wrapper& wrapper : all_wrappers()) {
    if (config["model_type"] == wrapper.model_type) return &wrapper;
  }
  return nullptr;
}

void check_architecture(const Wrapper& wrapper, const Json& config, const std::string& where) {
  const auto it = config.find("architectures");
  if (it == config.end() || !it->is_array() || it->empty()) return;
  const auto fits = [&](const Json& name) {
    return name == wrapper.architecture || (name == wrapper.other_architecture && name != "");
  };
  if (std::any_of(it->begin(), it->end(), fits)) return;
  throw Unsupported(where, "architectures: expected {}, got {}", wrapper.architecture, it->dump());
}

/// Keys that all wrappers have.
constexpr std::string_view kParts[] = {"text_config", "vision_config", "audio_config"};

/// The keys of the text half in a config that has them next to the wrapper's.
Json without_keys(Json config, const Wrapper& wrapper) {
  for (const std::string_view key : kParts) config.erase(std::string(key));
  for (const std::string_view key : wrapper.keys) config.erase(std::string(key));
  for (const PlaceholderKey& key : wrapper.placeholders) config.erase(std::string(key.key));
  config.erase("model_type");
  return config;
}

/// Leaves out how positions are divided among time, height and width.
void join_positions(Json& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.contains(key) || !config[key].is_object()) continue;
    Json& rope = config[key];
    for (const char* part : {"mrope_section", "mrope_interleaved"}) rope.erase(part);
    for (const char* type : {"type", "rope_type"}) {
      if (rope.contains(type) && rope[type] == "mrope") rope[type] = "default";
    }
  }
}

/// Gives `text` the model_type of its family and the keys that it lacks.
void complete(Json& text, const Wrapper& wrapper) {
  if (!text.contains("model_type") || text["model_type"].is_null()) text["model_type"] = wrapper.text_type;
  for (const TextType& type : text_types()) {
    if (text["model_type"] != type.model_type) continue;
    text["model_type"] = type.family;
    if (type.three_positions) join_positions(text);
    Json completed = parse_json(type.defaults, type.model_type);
    if (text.contains("rope_parameters")) completed.erase("rope_theta");
    completed.update(text);
    text = std::move(completed);
    return;
  }
}

/// What the wrapper says about its text half.
void overrule(Json& text, const Json& config, const Wrapper& wrapper, ConfigReader& reader) {
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (reader.has(key)) text[key] = config[key];
  }
  for (const char* key : {"dtype", "torch_dtype", "transformers_version", "quantization_config"}) {
    reader.ignore(key);
    if (reader.has(key) && !text.contains(key)) text[key] = config[key];
  }
  const bool text_ties = wrapper.text_may_tie && text.value("tie_word_embeddings", Json()) == true;
  text["tie_word_embeddings"] = reader.flag_or("tie_word_embeddings", wrapper.tied) || text_ties;
  text.erase("architectures");
}

PlaceholderTokens read_placeholders(const Wrapper& wrapper, ConfigReader& reader) {
  PlaceholderTokens tokens;
  for (const PlaceholderKey& key : wrapper.placeholders) {
    const auto id = reader.optional_number(key.key);
    if (id && *id >= 0 && *id <= kMaxSize) tokens.emplace(static_cast<std::int32_t>(*id), key.kind);
  }
  return tokens;
}

void add_unread(std::vector<UnreadTensors>& unread, std::string_view what, const StoredTensor& tensor) {
  auto it = std::find_if(unread.begin(), unread.end(), [&](const auto& part) { return part.what == what; });
  if (it == unread.end()) it = unread.insert(it, {std::string(what)});
  ++it->count;
  it->bytes += static_cast<std::int64_t>(tensor.bytes.size());
}

/// The part of a wrapper that the tensor belongs to; "": none, or the text half.
std::string_view unread_part(const Wrapper& wrapper, std::string_view name) {
  if (name.starts_with("model.")) name.remove_prefix(std::string_view("model.").size());
  for (const std::string_view part : wrapper.unread) {
    if (name.starts_with(part) && (name.size() == part.size() || name[part.size()] == '.')) return part;
  }
  return "";
}

/// The name that a tensor of the text half has in a file of its family: prefixes that wrappers put before it are
/// `language_model.`, to the whole, and `model.language_model.`, to the model without its head.
std::string name_in_family(const Wrapper& wrapper, const Family& family, std::string name) {
  constexpr std::string_view kWhole = "language_model.", kBase = "model.language_model.";
  const std::string base(family.prefixes.front());
  if (name.starts_with(kWhole)) {
    name.erase(0, kWhole.size());
  } else if (name.starts_with(kBase)) {
    name.replace(0, kBase.size(), base);
  }
  const std::string layers = base + std::string(wrapper.layers) + ".";
  if (!wrapper.layers.empty() && name.starts_with(layers)) name.replace(0, layers.size(), base + "layers.");
  return name;
}

/// Whether the tensor belongs to layers that predict tokens after the next one: `mtp`, or `n_further` layers after the
/// model's own.
bool predicts_further(const Family& family, std::string_view name, double n_layers, double n_further) {
  constexpr std::string_view kLayers = "layers.";
  for (const std::string_view prefix : family.prefixes) {
    if (!name.starts_with(prefix)) continue;
    std::string_view rest = name.substr(prefix.size());
    if (rest.starts_with("mtp.")) return true;
    if (!rest.starts_with(kLayers)) continue;
    rest.remove_prefix(kLayers.size());
    std::int64_t layer = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    if (error != std::errc() || end == rest.data() + rest.size() || *end != '.') continue;
    const auto number = static_cast<double>(layer);
    if (number >= n_layers && number < n_layers + n_further) return true;
  }
  return false;
}

void rename_text_half(const Wrapper& wrapper, const Family& family, StoredTensors& tensors,
                      std::vector<UnreadTensors>& unread) {
  std::map<std::string, StoredTensor> kept;
  for (auto& [name, tensor] : tensors.all) {
    if (const std::string_view part = unread_part(wrapper, name); !part.empty()) {
      add_unread(unread, part, tensor);
      continue;
    }
    std::string ours = name_in_family(wrapper, family, name);
    if (ours != name) tensor.name = name;
    const auto [it, is_new] = kept.emplace(std::move(ours), std::move(tensor));
    if (!is_new) {
      throw BadCheckpoint(tensors.where, "tensors {} and {} hold the same parameter", name,
                          name_in_file(it->first, it->second));
    }
  }
  tensors.all = std::move(kept);
}

}  // namespace

TextHalf text_half(Json config, const std::string& where, const std::vector<std::string>& allowed) {
  const Wrapper* const wrapper = wrapper_of(config);
  if (wrapper == nullptr) return {with_allowed_class(std::move(config), where, allowed), where};
  check_architecture(*wrapper, config, where);
  ConfigReader reader(config, where, allowed);
  TextHalf half{Json(), where, wrapper, read_placeholders(*wrapper, reader)};
  for (const std::string_view key : kParts) reader.ignore(key);
  for (const std::string_view key : wrapper->keys) reader.ignore(key);
  const bool is_flat = wrapper->flat && !reader.has("text_config");
  if (is_flat) {
    half.config = without_keys(config, *wrapper);
  } else {
    if (!reader.object("text_config")) throw BadCheckpoint(where, "key text_config is missing");
    half.config = config["text_config"];
    half.where += ", text_config";
  }
  if (half.config.is_object() && half.config.value("use_bidirectional_attention", Json()) == true) {
    throw Unsupported(half.where, "use_bidirectional_attention: expected null or false, got true");
  }
  overrule(half.config, config, *wrapper, reader);
  complete(half.config, *wrapper);
  if (!is_flat) reader.finish();
  return half;
}

Json read_text_config(const std::string& path) { return text_half(read_json_file(path), path).config; }

std::vector<UnreadTensors> keep_text_half(const TextHalf& half, const Family& family, StoredTensors& tensors) {
  std::vector<UnreadTensors> unread;
  if (half.wrapper != nullptr) rename_text_half(*half.wrapper, family, tensors, unread);
  ConfigReader reader(half.config, half.where);
  const double n_layers = reader.number_or("num_hidden_layers", 0);
  // A config that lists its layers instead of counting them stores further ones under names of their own.
  const double n_further = n_layers > 0 ? reader.number_or("num_nextn_predict_layers", 0) : 0;
  std::erase_if(tensors.all, [&](const auto& entry) {
    if (!predicts_further(family, entry.first, n_layers, n_further)) return false;
    add_unread(unread, "layers that predict further tokens (MTP)", entry.second);
    return true;
  });
  return unread;
}

}  // namespace vitrine
