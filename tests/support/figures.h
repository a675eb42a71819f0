// tests/goldens/figures.json and goldens/NAME/figures.json: what PyTorch and transformers say of models that init
// makes.
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

/// Those of goldens stand among the `models` as "goldens/NAME".
inline Json reference_figures() {
  Json figures = Json::parse(std::ifstream(goldens() + "/figures.json"));
  for (const auto& entry : std::filesystem::directory_iterator(goldens())) {
    std::ifstream in(entry.path() / "figures.json");
    if (in) figures["models"]["goldens/" + entry.path().filename().string()] = Json::parse(in);
  }
  return figures;
}

/// A folder that goes with its test.
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

/// The config of one of the tiny models: a preset's, or that of goldens/NAME.
inline Json tiny_config(const std::string& preset, const Json& figures) {
  const std::string golden = "goldens/";
  Json config = preset_or_config(
      preset.starts_with(golden) ? goldens() + "/" + preset.substr(golden.size()) + "/config.json" : preset);
  set_config_keys(config, figures["set"].get<std::vector<std::string>>(), preset);
  return config;
}

/// Makes the tiny model again.
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
