#include "tokenizer/read/chat_templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "tokenizer/read/tokenizer_folder.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTemplateFolder = "additional_chat_templates";
constexpr std::string_view kTemplateEnding = ".jinja";
constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

bool is_template_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string file_text(const fs::path& path) { return std::string(MappedFile::open(path.string())->text()); }

/// Adds "chat_template" of a tokenizer_config.json: one template, or a list of named ones.
void add_templates(const Json& config, std::string_view where, ChatTemplates& result) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return;
  if (found->is_string()) {
    result.by_name["default"] = found->get<std::string>();
    return;
  }
  if (!found->is_array()) {
    throw BadCheckpoint(where, "expected text or a list as chat_template, got {}", found->type_name());
  }
  for (const Json& entry : *found) {
    const bool is_named = entry.is_object() && entry.contains("name") && entry["name"].is_string() &&
                          entry.contains("template") && entry["template"].is_string();
    if (!is_named) throw BadCheckpoint(where, "expected \"name\" and \"template\" in each entry of chat_template");
    result.by_name[entry["name"].get<std::string>()] = entry["template"].get<std::string>();
  }
}

ChatTemplates templates_of_folder(const fs::path& path) {
  ChatTemplates result;
  const TokenizerFolder folder = read_tokenizer_folder(path.string());
  for (const auto& [name, token] : folder.named) {
    result.special_tokens.emplace_back(name, token_text(token, folder.config_path));
  }
  if (is_template_file(path / "chat_template.jinja")) {
    result.by_name["default"] = file_text(path / "chat_template.jinja");
  }
  for (const std::string& name : additional_chat_templates(path.string())) {
    result.by_name[fs::path(name).stem().string()] = file_text(path / name);
  }
  if (result.by_name.empty()) add_templates(folder.config, folder.config_path, result);
  return result;
}

ChatTemplates templates_of_gguf(const GgufMetadata& metadata) {
  ChatTemplates result;
  for (const auto& [key, value] : metadata.values()) {
    if (!key.starts_with(kTemplateKey) || value.type != GgufType::string) continue;
    const std::string_view name = key.substr(kTemplateKey.size());
    if (!name.empty() && name[0] != '.') continue;
    result.by_name[name.empty() ? "default" : std::string(name.substr(1))] = *metadata.string(key);
  }
  constexpr std::pair<const char*, const char*> kTokens[] = {
      {"bos", "bos_token"},     {"eos", "eos_token"}, {"unknown", "unk_token"}, {"seperator", "sep_token"},
      {"padding", "pad_token"}, {"cls", "cls_token"}, {"mask", "mask_token"}};
  const auto tokens = metadata.strings("tokenizer.ggml.tokens");
  if (!tokens) return result;
  for (const auto& [kind, name] : kTokens) {
    const auto id = metadata.integer(fmt::format("tokenizer.ggml.{}_token_id", kind));
    if (id && *id >= 0 && *id < static_cast<std::int64_t>(tokens->size())) {
      result.special_tokens.emplace_back(name, (*tokens)[static_cast<std::size_t>(*id)]);
    }
  }
  return result;
}

}  // namespace

const std::string& ChatTemplates::choose(bool has_tools, std::string_view where) const {
  if (has_tools && by_name.count("tool_use") != 0) return by_name.at("tool_use");
  if (by_name.count("default") != 0) return by_name.at("default");
  if (by_name.empty()) throw BadInput(where, "the model has no chat template");
  std::string names;
  for (const auto& [name, text] : by_name) names += (names.empty() ? "" : ", ") + name;
  throw BadInput(where, "expected a chat template named default, got {}", names);
}

std::vector<std::string> additional_chat_templates(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(folder) / kTemplateFolder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kTemplateEnding) && is_template_file(entry.path()))
      names.push_back(std::string(kTemplateFolder) + "/" + name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

ChatTemplates load_chat_templates(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return templates_of_folder(path);
  const auto file = MappedFile::open(path);
  if (file->text().starts_with("GGUF")) return templates_of_gguf(GgufMetadata::parse(file->bytes(), path));
  if (!path.ends_with(kTemplateEnding)) {
    throw BadInput(path, "expected a folder, a GGUF file or a template whose name ends in .jinja");
  }
  ChatTemplates result;
  result.by_name["default"] = std::string(file->text());
  return result;
}

ChatTemplates open_chat_templates(const std::string& path, const std::string& file) {
  ChatTemplates templates;
  try {
    templates = load_chat_templates(path);
  } catch (const BadInput&) {  // a format without templates
  }
  if (!file.empty()) templates.by_name = {{"default", std::string(MappedFile::open_or_read(file)->text())}};
  return templates;
}

GgufKeys gguf_chat_template_keys(const ChatTemplates& templates) {
  GgufKeys keys;
  for (const auto& [name, text] : templates.by_name) {
    keys.add(name == "default" ? std::string(kTemplateKey) : fmt::format("{}.{}", kTemplateKey, name), text);
  }
  return keys;
}

}  // namespace vitrine
