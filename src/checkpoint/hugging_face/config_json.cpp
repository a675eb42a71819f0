#include "checkpoint/hugging_face/config_json.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/mapped_file.h"

namespace vitrine {

Json read_json_file(const std::string& path) { return parse_json(MappedFile::open(path)->text(), path); }

namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return result;
}

/// Whether `architectures` names a class: in any case, as early conversions do, or with a prefix, as wrappers do.
bool names_class(const Json& config, std::string_view name) {
  const auto it = config.find("architectures");
  if (it == config.end() || !it->is_array()) return false;
  return std::any_of(it->begin(), it->end(), [&](const Json& architecture) {
    return architecture.is_string() && lower(architecture.get<std::string>()).ends_with(lower(name));
  });
}

/// `Llama` of `LlamaForCausalLM` and of `LlamaLMHeadModel`.
std::string base_class(std::string_view architecture) {
  return std::string(architecture.substr(0, std::min(architecture.find("For"), architecture.find("LMHeadModel"))));
}

/// Whether the config is that of a family's model without its head.
bool is_base(const Family& family, const Json& config) {
  const std::string name = base_class(family.architecture);
  return !names_class(config, family.architecture) && !family.has_encoder &&
         (names_class(config, name + "Model") || names_class(config, name + "TextModel"));
}

/// A name that lives as long as the program.
std::string_view kept(std::string name) {
  static std::mutex mutex;
  static std::set<std::string> names;
  const std::lock_guard lock(mutex);
  return *names.insert(std::move(name)).first;
}

/// Whether the config is that of an encoder–decoder's encoder (T5EncoderModel).
bool is_encoder_alone(const Json& config) {
  const auto it = config.find("architectures");
  if (!config.is_object() || it == config.end() || !it->is_array()) return false;
  return std::any_of(it->begin(), it->end(), [](const Json& architecture) {
    return architecture.is_string() && architecture.get<std::string>().ends_with("EncoderModel");
  });
}

/// The family of the encoders of a family of encoder–decoders.
Family encoder_alone(const Family& family) {
  Family result = family;
  result.tensors.clear();
  result.adapt = {};
  result.read_config = [read = family.read_config](ConfigReader& c) {
    const ModelConfig both = read(c);
    ModelConfig model;
    static_cast<StackConfig&>(model) = both.encoder.value();
    model.has_head = false;
    return model;
  };
  result.has_encoder = false;
  for (TensorRule rule : family.tensors) {
    for (std::string_view& ours : rule.ours) {
      if (!ours.starts_with("encoder.")) continue;
      ours.remove_prefix(std::string_view("encoder.").size());
      if (ours.starts_with("{l}")) ours = kept("blocks." + std::string(ours));
    }
    if (!rule.ours.front().starts_with("decoder.") && rule.ours.front() != "unembed") result.tensors.push_back(rule);
  }
  return result;
}

}  // namespace

Family family_of(const Json& config, const std::string& where) {
  const std::string type = config.is_object() && config.contains("model_type") && config["model_type"].is_string()
                               ? config["model_type"].get<std::string>()
                               : "";
  if (type.empty()) throw BadCheckpoint(where, "key model_type is missing");
  std::string known;
  for (const Family& family : all_families()) {
    if (family.model_type != type) {
      known += (known.empty() ? "" : ", ") + std::string(family.model_type);
      continue;
    }
    const auto it = config.find("architectures");
    const auto names = [&](std::string_view name) { return names_class(config, name); };
    const bool fits = it == config.end() || !it->is_array() || it->empty() || names(family.architecture) ||
                      is_base(family, config) || (family.has_encoder && is_encoder_alone(config)) ||
                      std::any_of(family.others.begin(), family.others.end(), names);
    if (!fits) {
      throw Unsupported(where, "architectures: expected {} or {}, got {}", family.architecture,
                        base_class(family.architecture) + "Model", it->dump());
    }
    return family.has_encoder && is_encoder_alone(config) ? encoder_alone(family) : family;
  }
  throw Unsupported(where, "model_type \"{}\" is not supported (supported: {})", type, known);
}

ModelConfig read_model_config(const Family& family, const Json& config, const std::string& where,
                              const std::vector<std::string>& allowed) {
  ConfigReader reader(config, where, allowed);
  if (family.has_encoder || reader.has("encoder")) {
    if (!reader.flag_or("is_encoder_decoder", true)) {
      throw Unsupported(where, "is_encoder_decoder: the decoder alone is not supported");
    }
  } else {
    reader.refuse("is_encoder_decoder");
  }
  reader.refuse("quantization_config");
  reader.refuse("add_cross_attention");
  if (reader.has("pruned_heads") && !config["pruned_heads"].empty()) {
    throw Unsupported(where, "key pruned_heads is not supported");
  }
  reader.ignore("pruned_heads");
  ModelConfig result = family.read_config(reader);
  if (is_base(family, config)) result.has_head = false;
  reader.finish();
  validate(result, where);
  return result;
}

}  // namespace vitrine
