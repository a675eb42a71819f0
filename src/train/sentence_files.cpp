#include "train/sentence_files.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/hugging_face/text_modules.h"
#include "checkpoint/param_rows.h"
#include "checkpoint/safetensors.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModules = "modules.json";

/// Adds a file of the folder, if it has it.
void copy_file(const fs::path& folder, const std::string& name, FolderFiles& files) {
  std::error_code error;
  const fs::path path = folder / name;
  if (fs::is_regular_file(path, error)) files.emplace_back(name, MappedFile::open(path.string())->text());
}

/// The steps of a new folder: the model, and the mean of its rows.
FolderFiles mean_of_rows(std::int64_t d) {
  const auto module = [](int idx, const char* path, const char* type) {
    return Json{{"idx", idx}, {"name", std::to_string(idx)}, {"path", path}, {"type", type}};
  };
  const Json modules = {module(0, "", "sentence_transformers.models.Transformer"),
                        module(1, "1_Pooling", "sentence_transformers.models.Pooling")};
  const Json pooling = {{"word_embedding_dimension", d},
                        {"pooling_mode_cls_token", false},
                        {"pooling_mode_mean_tokens", true},
                        {"pooling_mode_max_tokens", false}};
  const Json config = {{"prompts", Json::object()}, {"default_prompt_name", nullptr}, {"similarity_fn_name", "cosine"}};
  return {{kModules, modules.dump(2) + "\n"},
          {"1_Pooling/config.json", pooling.dump(2) + "\n"},
          {"config_sentence_transformers.json", config.dump(2) + "\n"}};
}

/// The folder of a module, within that of modules.json.
std::string folder_name(ConfigReader& module) { return fs::path(module.text_or("path", "")).filename().string(); }

void write_floats(const Param& param, const Hold& hold, SafetensorsWriter& writer) {
  std::vector<std::int64_t> shape;
  for (int i = 0; i < param.shape.rank(); ++i) shape.push_back(param.shape[i]);
  writer.begin(param.stored_name, DType::f32, shape);
  std::vector<float> row(static_cast<std::size_t>(param.view.cols));
  for (std::int64_t i = 0; i < param.view.rows; ++i) {
    if (hold) hold(param.view.at(i, 0));
    read_row(param.view, i, row);
    writer.append(std::as_bytes(std::span(row)));
  }
}

}  // namespace

FolderFiles sentence_files(const std::string& path, LearnedTask task, std::int64_t d) {
  const fs::path folder = path;
  std::error_code error;
  if (!fs::is_regular_file(folder / kModules, error)) {
    return task == LearnedTask::embed ? mean_of_rows(d) : FolderFiles();
  }
  FolderFiles files;
  for (const char* name : {kModules, "config_sentence_transformers.json", "sentence_bert_config.json"}) {
    copy_file(folder, name, files);
  }
  const std::string where = (folder / kModules).string();
  const Json modules = read_json_file(where);
  if (!modules.is_array()) throw BadCheckpoint(where, "expected a list of modules");
  for (const Json& module : modules) {
    ConfigReader c(module, where);
    const std::string type = c.text_or("type", ""), kind = type.substr(type.rfind('.') + 1);
    constexpr std::string_view kKinds[] = {"Transformer", "MLMTransformer", "Pooling",      "Dense",
                                           "LayerNorm",   "Normalize",      "SpladePooling"};
    if (std::find(std::begin(kKinds), std::end(kKinds), kind) == std::end(kKinds)) {
      throw Unsupported(where, "a model with the module {} cannot be trained", type);
    }
    const std::string name = folder_name(c);
    if (kind != "Transformer" && kind != "MLMTransformer") copy_file(folder, name + "/config.json", files);
  }
  return files;
}

TextSteps steps_of_vectors(const std::string& path) {
  std::optional<TextModules> modules = read_text_modules(folder_of_modules(path), nullptr);
  return modules ? std::move(modules->steps) : TextSteps{.steps = {PoolStep{}}};
}

void write_step_weights(const std::string& folder, const FolderFiles& files, const TextSteps& steps, const Hold& hold) {
  const auto modules =
      std::find_if(files.begin(), files.end(), [](const auto& file) { return file.first == kModules; });
  if (modules == files.end()) return;
  for (const Json& module : parse_json(modules->second, kModules)) {
    ConfigReader c(module, kModules);
    const std::string prefix = "modules." + c.text_or("name", "") + ".";
    std::vector<const Param*> own;
    for_each_step_param(steps, [&](const Param& param) {
      if (param.name.starts_with(prefix)) own.push_back(&param);
    });
    if (own.empty()) continue;
    SafetensorsWriter writer((fs::path(folder) / folder_name(c) / "model.safetensors").string(),
                             header_bytes_for(own.size()));
    for (const Param* const param : own) write_floats(*param, hold, writer);
    writer.commit();
  }
}

}  // namespace vitrine
