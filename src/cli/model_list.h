// The models of `serve --models`: the subfolders and files of a folder, or what a TOML file lists.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/serve_options.h"

namespace vitrine::cli {

struct ListedModel {
  std::string name;
  std::string place{};  ///< Where it is listed, for errors.
  std::vector<std::string> aliases{};
  std::optional<std::chrono::duration<double>> ttl{};
  bool preloads = false;
  std::vector<std::string> adapters{};  ///< Their names.
  /// Those of the server, with those of the model; `model` is its path or its name on a hub.
  std::shared_ptr<ServeOptions> options{};
};

struct ModelList {
  std::optional<std::int64_t> memory{};                ///< Bytes of loaded weights.
  std::optional<std::chrono::duration<double>> ttl{};  ///< Of models without one.
  std::vector<ListedModel> models{};                   ///< By name.
};

/// Throws BadInput for a path that does not exist, a folder without models, and, with file and line, for a file that is
/// not valid, with the nearest name for a key that there is not. `server`: what the models do not say.
ModelList read_model_list(const std::string& path, const ServeOptions& server);

/// "12G" as bytes: a number, and K, M, G or T (of 1024); nothing for other texts.
std::optional<std::int64_t> parse_size(const std::string& text);
/// "5m" as seconds: a number, and s, m, h or d; nothing for other texts.
std::optional<double> parse_duration(const std::string& text);

}  // namespace vitrine::cli
