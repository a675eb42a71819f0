#include "checkpoint/hugging_face/sentence_transformers.h"

#include <filesystem>

#include "base/error.h"
#include "checkpoint/hugging_face/config_json.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

/// The kind of pooling that 1_Pooling/config.json selects, one of those that are supported.
std::string read_pooling(const std::string& path) {
  constexpr std::pair<const char*, const char*> kModes[] = {{"pooling_mode_cls_token", "cls"},
                                                            {"pooling_mode_mean_tokens", "mean"},
                                                            {"pooling_mode_max_tokens", "max"},
                                                            {"pooling_mode_lasttoken", "last"}};
  const Json json = read_json_file(path);
  ConfigReader c(json, path);
  for (const char* key : {"pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"}) c.refuse(key);
  if (const std::string mode = c.text_or("pooling_mode", ""); !mode.empty()) {
    if (mode == "lasttoken") return "last";
    if (mode == "cls" || mode == "mean" || mode == "max") return mode;
    throw Unsupported(path, "pooling_mode \"{}\" is not supported", mode);
  }
  std::string found;
  for (const auto& [key, name] : kModes) {
    if (!c.flag_or(key, false)) continue;
    if (!found.empty()) throw Unsupported(path, "{} and {} together are not supported", found, name);
    found = name;
  }
  if (found.empty()) throw BadCheckpoint(path, "expected a pooling mode");
  return found;
}

}  // namespace

SentenceConfig read_sentence_config(const std::string& folder) {
  SentenceConfig config;
  const fs::path modules = fs::path(folder) / "modules.json";
  std::error_code error;
  if (!fs::exists(modules, error)) return config;
  const Json list = read_json_file(modules.string());
  if (!list.is_array()) throw BadCheckpoint(modules.string(), "expected a list of modules");
  config.normalize = false;
  for (const Json& module : list) {
    ConfigReader c(module, modules.string());
    const std::string type = c.text_or("type", ""), path = c.text_or("path", "");
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Pooling") {
      config.pooling = read_pooling((fs::path(folder) / fs::path(path).filename() / "config.json").string());
    } else if (kind == "Normalize") {
      config.normalize = true;
    } else if (kind != "Transformer") {
      throw Unsupported(modules.string(), "module {} is not supported", type);
    }
  }
  const fs::path sizes = fs::path(folder) / "sentence_bert_config.json";
  if (!fs::exists(sizes, error)) return config;
  const Json json = read_json_file(sizes.string());
  ConfigReader c(json, sizes.string());
  config.max_tokens = c.optional_size("max_seq_length");
  config.lowercase = c.flag_or("do_lower_case", false);
  return config;
}

std::vector<std::int32_t> truncated(std::vector<std::int32_t> ids, const SentenceConfig& config) {
  if (!config.max_tokens || std::ssize(ids) <= *config.max_tokens) return ids;
  const auto keep = static_cast<std::ptrdiff_t>(*config.max_tokens) - 1;  // and the last, which ends the text
  ids.erase(ids.begin() + keep, ids.end() - 1);
  return ids;
}

}  // namespace vitrine
