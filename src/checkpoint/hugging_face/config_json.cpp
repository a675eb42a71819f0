#include "checkpoint/hugging_face/config_json.h"

#include <algorithm>

#include "base/error.h"
#include "base/mapped_file.h"

namespace vitrine {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return result;
}

/// The class of the model without its head: LlamaModel for LlamaForCausalLM; empty if the name has no such form.
std::string base_of(std::string_view architecture) {
  for (const std::string_view head : {"For", "LMHeadModel"}) {
    const std::size_t at = architecture.rfind(head);
    if (at != architecture.npos) return std::string(architecture.substr(0, at)) + "Model";
  }
  return "";
}

/// Whether a name in `architectures` is a class of the family. Case does not count, nor what a wrapper puts before the
/// name, as in FSDPLlamaForCausalLM and early conversions.
bool is_class_of(const Family& family, const std::string& name) {
  if (name.starts_with("PeftModel")) return true;
  const std::string own = lower(name);
  const auto fits = [&](std::string_view known) { return !known.empty() && own.ends_with(lower(known)); };
  return fits(family.architecture) || own == lower(base_of(family.architecture)) ||
         std::any_of(family.others.begin(), family.others.end(), fits);
}

}  // namespace

Json read_json_file(const std::string& path) { return parse_json(MappedFile::open(path)->text(), path); }

const Family& family_of(const Json& config, const std::string& where) {
  const std::string type = config.is_object() && config.contains("model_type") && config["model_type"].is_string()
                               ? config["model_type"].get<std::string>()
                               : "";
  if (type.empty()) throw BadCheckpoint(where, "key model_type is missing");
  std::string known, expected;
  for (const Family& family : all_families()) {
    if (family.model_type != type) {
      if (!known.ends_with(family.model_type)) known += (known.empty() ? "" : ", ") + std::string(family.model_type);
      continue;
    }
    const auto it = config.find("architectures");
    const auto is_known = [&](const Json& name) { return name.is_string() && is_class_of(family, name); };
    const bool fits =
        it == config.end() || !it->is_array() || it->empty() || std::any_of(it->begin(), it->end(), is_known);
    if (fits) return family;
    expected += (expected.empty() ? "" : " or ") + std::string(family.architecture);
  }
  if (!expected.empty()) {
    throw Unsupported(where, "architectures: expected {}, got {}", expected, config["architectures"].dump());
  }
  if (const UnsupportedType* const other = unsupported_type(type)) {
    throw Unsupported(where, "model_type {}: not supported: {}; nearest: {}", type, other->mechanism, other->nearest);
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
  } else if (family.architecture.ends_with("EncoderModel")) {
    reader.ignore("is_encoder_decoder");  // files have that of the whole model
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
