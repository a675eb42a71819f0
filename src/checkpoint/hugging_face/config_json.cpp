#include "checkpoint/hugging_face/config_json.h"

#include <algorithm>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/hugging_face/quantization.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return result;
}

/// The class of the model without its head: LlamaModel for LlamaForCausalLM; empty if the name has no such form.
std::string base_of(std::string_view architecture) {
  for (const std::string_view head : {"For", "LMHeadModel", "MTModel"}) {
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

/// Whether a config names no class, or one of the family.
bool fits(const Family& family, const Json& config) {
  const auto it = config.find("architectures");
  return it == config.end() || !it->is_array() || it->empty() ||
         std::any_of(it->begin(), it->end(),
                     [&](const Json& name) { return name.is_string() && is_class_of(family, name); });
}

/// The family of the model_type in `config`.
const Family& family_of_type(const Json& config, const std::string& where) {
  const std::string type = config.is_object() && config.contains("model_type") && config["model_type"].is_string()
                               ? config["model_type"].get<std::string>()
                               : "";
  if (type.empty()) throw BadCheckpoint(where, "key model_type is missing");
  std::string known;
  for (const Family& family : all_families()) {
    if (family.model_type == type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  if (const UnsupportedType* const other = unsupported_type(type)) {
    throw Unsupported(where, "model_type {}: not supported: {}; nearest: {}", type, other->mechanism, other->nearest);
  }
  throw Unsupported(where, "model_type \"{}\" is not supported (supported: {})", type, known);
}

}  // namespace

namespace {

/// The text with each word Infinity outside of strings, which Python writes, as {"__float__": "Infinity"}.
std::string with_named_infinities(std::string_view text) {
  constexpr std::string_view kWord = "Infinity";
  std::string result;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_sign = !in_string && i > 0 && text[i - 1] == '-';
    if (!in_string && !is_sign && text.substr(i).starts_with(kWord)) {
      result += "{\"__float__\": \"Infinity\"}";
      i += kWord.size() - 1;
      continue;
    }
    if (in_string && text[i] == '\\' && i + 1 < text.size()) result += text[i++];
    if (text[i] == '"') in_string = !in_string;
    result += text[i];
  }
  return result;
}

}  // namespace

Json read_json_file(const std::string& path) {
  const auto file = MappedFile::open(path);
  const std::string_view text = file->text();
  return text.find("Infinity") == text.npos ? parse_json(text, path) : parse_json(with_named_infinities(text), path);
}

Family family_of(const Json& config, const std::string& where) {
  const Family& family = family_of_type(config, where);
  if (const TaskClass* const task = task_class_of(family, config)) return with_task(family, *task);
  if (fits(family, config)) return family;
  std::string expected(family.architecture);
  for (const std::string_view other : family.others) expected += ", " + std::string(other);
  const std::string base = base_of(family.architecture), stem = base.substr(0, base.rfind("Model"));
  for (const TaskClass& task : family.tasks) expected += ", " + stem + std::string(task.ending);
  throw Unsupported(where,
                    "architectures: expected {}, got {} (--allow-config-key architectures reads the layers of {})",
                    expected, config["architectures"].dump(), base);
}

Json with_allowed_class(Json config, const std::string& where, const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), "architectures") == allowed.end()) return config;
  const Family& family = family_of_type(config, where);
  if (fits(family, config) || task_class_of(family, config) != nullptr) return config;
  const bool is_encoder =
      family.has_encoder && !family.others.empty() && config.value("is_encoder_decoder", Json()) == false;
  config["architectures"] = {is_encoder ? std::string(family.others.front()) : base_of(family.architecture)};
  return config;
}

bool is_encoder_alone(ConfigReader& config) {
  const std::vector<std::string> names = config.texts_or_empty("architectures");
  return std::any_of(names.begin(), names.end(), [](const auto& name) { return name.ends_with("EncoderModel"); });
}

ModelConfig read_model_config(const Family& family, const Json& config, const std::string& where,
                              const std::vector<std::string>& allowed) {
  ConfigReader reader(config, where, allowed);
  if (family.has_encoder && is_encoder_alone(reader)) {
    reader.ignore("is_encoder_decoder");  // files have that of the whole model
  } else if (family.has_encoder || reader.has("encoder")) {
    if (!reader.flag_or("is_encoder_decoder", true)) {
      throw Unsupported(where, "is_encoder_decoder: expected true, got false: give the model with its encoder");
    }
  } else {
    reader.refuse("is_encoder_decoder");
  }
  read_quantization(reader);
  reader.refuse("add_cross_attention");
  reader.expect(!reader.has("pruned_heads") || config["pruned_heads"].empty(), "pruned_heads", "none");
  ModelConfig result = family.read_config(reader);
  if (family.task) read_task(reader, *family.task, result);
  reader.finish();
  validate(result, where);
  return result;
}

}  // namespace vitrine
