#include "generate/preflight.h"

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/gguf.h"
#include "base/mapped_file.h"
#include "base/nearest.h"
#include "checkpoint/family.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/safetensors.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

/// Whether the path is an adapter or a control vector.
bool changes_a_model(const std::string& path) {
  if (fs::is_directory(path)) return fs::exists(path + "/adapter_config.json") && !fs::exists(path + "/config.json");
  const auto file = MappedFile::open(path);
  const GgufMetadata metadata = GgufMetadata::parse(file->bytes(), path);
  return metadata.string("general.type") == "adapter" || metadata.string("general.architecture") == "controlvector";
}

/// Whether the config and the headers can be read, so that what is wrong is in what they say.
bool is_well_formed(const std::string& path) {
  try {
    if (!fs::is_directory(path)) {
      if (!path.ends_with(".gguf")) return false;
      const auto file = MappedFile::open(path);
      const GgufMetadata metadata = GgufMetadata::parse(file->bytes(), path);
      metadata.contents();
      return metadata.string("general.architecture").has_value();
    }
    const std::string config = path + "/config.json";
    family_of(parse_json(MappedFile::open(config)->text(), config), config);
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() == ".safetensors") SafetensorsFile::open(entry.path().string());
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The family that the message of an error names, or the one whose name is most similar to the config's.
std::string nearest_family(const std::string& message, const std::string& path) {
  constexpr std::string_view kNearest = "nearest: ";
  if (const std::size_t at = message.find(kNearest); at != message.npos) return message.substr(at + kNearest.size());
  const std::string config = path + "/config.json";
  if (!fs::exists(config)) return "";
  std::vector<std::string> families;
  for (const Family& family : all_families()) families.emplace_back(family.model_type);
  try {
    const Json json = parse_json(MappedFile::open(config)->text(), config);
    const bool has_type = json.is_object() && json.contains("model_type") && json["model_type"].is_string();
    return has_type ? nearest(json["model_type"].get<std::string>(), families) : "";
  } catch (const Error&) {
    return "";
  }
}

/// `message` is that of an Error: [where] what.
Obstacle obstacle_of(std::string message, const std::string& path, bool is_malformed) {
  const std::string folder = (fs::is_directory(path) ? path : fs::path(path).parent_path().string()) + "/";
  for (std::size_t at; (at = message.find(folder)) != message.npos;) message.erase(at, folder.size());
  Obstacle result;
  const std::size_t end = message.starts_with('[') ? message.find("] ") : message.npos;
  if (end != message.npos) result.where = message.substr(1, end - 1);
  result.what = end != message.npos ? message.substr(end + 2) : message;
  if (result.where == path) result.where = "";
  result.nearest = nearest_family(message, path);
  result.is_malformed = is_malformed;
  return result;
}

}  // namespace

std::optional<Obstacle> find_obstacle(const std::string& path, const LoadOptions& options) {
  try {
    LoadOptions headers = options;
    headers.without_values = true;
    load_checkpoint(path, headers);
    return std::nullopt;
  } catch (const Unsupported& e) {
    return obstacle_of(e.what(), path, false);
  } catch (const BadCheckpoint& e) {
    return obstacle_of(e.what(), path, !is_well_formed(path));
  } catch (const BadInput& e) {
    return obstacle_of(e.what(), path, true);
  }
}

void refuse_obstacle(const std::string& path, const LoadOptions& options) {
  const auto obstacle = find_obstacle(path, options);
  if (!obstacle || obstacle->is_malformed || changes_a_model(path)) return;
  const std::string near = obstacle->nearest.empty() || obstacle->what.find(obstacle->nearest) != std::string::npos
                               ? ""
                               : " (nearest family: " + obstacle->nearest + ")";
  throw Unsupported(obstacle->where.empty() ? "model" : obstacle->where,
                    "{}{}; nothing was fetched (vitrine pull --force fetches it)", obstacle->what, near);
}

}  // namespace vitrine
