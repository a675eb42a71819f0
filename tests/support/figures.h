// tests/goldens/figures.json and goldens/NAME/figures.json: parameter counts, FLOPs and losses, as PyTorch and
// transformers compute them for models made by init.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/init.h"
#include "checkpoint/load.h"
#include "checkpoint/presets.h"
#include "support/data.h"

namespace vitrine::test {

/// All figures. In `models`, the name of a golden is "goldens/NAME".
inline Json reference_figures() {
  Json figures = Json::parse(std::ifstream(goldens() + "/figures.json"));
  for (const auto& entry : std::filesystem::directory_iterator(goldens())) {
    std::ifstream in(entry.path() / "figures.json");
    if (in) figures["models"]["goldens/" + entry.path().filename().string()] = Json::parse(in);
  }
  return figures;
}

/// A temporary folder, removed with this object.
class ScratchFolder {
 public:
  ScratchFolder() : path_(testing::TempDir() + "vitrine_XXXXXX") { EXPECT_NE(::mkdtemp(path_.data()), nullptr); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// The config of a tiny model: of a preset, or of goldens/NAME.
inline Json tiny_config(const std::string& preset, const Json& figures) {
  const std::string golden = "goldens/";
  Json config = preset_or_config(
      preset.starts_with(golden) ? goldens() + "/" + preset.substr(golden.size()) + "/config.json" : preset);
  set_config_keys(config, figures["set"].get<std::vector<std::string>>(), preset);
  return config;
}

/// Makes the same tiny model as the figures were computed for.
inline Checkpoint tiny_checkpoint(const std::string& preset, const Json& figures, const std::string& folder,
                                  int threads = 2) {
  ThreadPool pool(threads);
  const DType dtype = figures["dtype"] == "f32" ? DType::f32 : DType::bf16;
  init_checkpoint(tiny_config(preset, figures), preset, folder, dtype, 7, pool);
  return load_checkpoint(folder);
}

inline std::vector<std::string> tiny_presets() {
  std::vector<std::string> names;
  const Json figures = reference_figures();
  for (const auto& [name, model] : figures["models"].items()) names.push_back(name);
  return names;
}

}  // namespace vitrine::test
