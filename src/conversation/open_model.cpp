#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "conversation/encoder.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

/// Whether load_chat_templates() can read a path: a folder or a GGUF file.
bool may_have_templates(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error) || MappedFile::open(path)->text().starts_with("GGUF");
}

/// The folder that a tokenizer.json is in, which may have the other files; any other path as it is.
std::string folder_of(const std::string& path) {
  const fs::path file(path);
  return file.filename() == "tokenizer.json" ? (file.has_parent_path() ? file.parent_path() : fs::path(".")).string()
                                             : path;
}

/// Every eos_token_id of config.json and generation_config.json in a folder; empty for any other path.
std::vector<std::int32_t> declared_stop_ids(const std::string& folder) {
  std::vector<std::int32_t> ids;
  for (const char* name : {"config.json", "generation_config.json"}) {
    const fs::path path = fs::path(folder) / name;
    std::error_code error;
    if (!fs::is_regular_file(path, error)) continue;
    const Json json = parse_json(MappedFile::open(path.string())->text(), path.string());
    const auto eos_of = [](const Json& object) {
      return object.is_object() && object.contains("eos_token_id") ? object["eos_token_id"] : Json();
    };
    Json eos = eos_of(json);
    if (eos.is_null() && json.is_object()) eos = eos_of(json.value("text_config", Json()));
    for (const Json& id : eos.is_array() ? eos : Json::array({eos})) {
      if (id.is_number_integer()) ids.push_back(id.get<std::int32_t>());
    }
  }
  return ids;
}

}  // namespace

ConversationModel open_conversation_model(const ConversationFiles& files) {
  ConversationModel model;
  model.where = files.model.empty() ? folder_of(files.tokenizer) : files.model;
  model.tokenizer = load_tokenizer(files.tokenizer.empty() ? files.model : files.tokenizer, files.options);
  if (may_have_templates(model.where)) model.templates = load_chat_templates(model.where);
  if (!files.chat_template.empty()) {
    model.templates.by_name = {{"default", std::string(MappedFile::open(files.chat_template)->text())}};
  }
  model.stop_ids = declared_stop_ids(model.where);
  return model;
}

}  // namespace vitrine
