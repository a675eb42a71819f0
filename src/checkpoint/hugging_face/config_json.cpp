#include "checkpoint/hugging_face/config_json.h"

#include <algorithm>

#include "base/error.h"
#include "base/mapped_file.h"

namespace vitrine {

Json read_json_file(const std::string& path) { return parse_json(MappedFile::open(path)->text(), path); }

const Family& family_of(const Json& config, const std::string& where) {
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
    const auto names = [&](std::string_view name) {
      return std::find(it->begin(), it->end(), std::string(name)) != it->end();
    };
    const bool fits = it == config.end() || !it->is_array() || it->empty() || names(family.architecture) ||
                      std::any_of(family.others.begin(), family.others.end(), names);
    if (!fits) throw Unsupported(where, "architectures: expected {}, got {}", family.architecture, it->dump());
    return family;
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
  reader.finish();
  validate(result, where);
  return result;
}

}  // namespace vitrine
