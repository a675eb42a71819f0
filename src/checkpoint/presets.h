// Published architectures by name, as their config.json has them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace vitrine {

struct Preset {
  std::string_view name;
  std::string_view source;  ///< The checkpoint whose config.json this is, and who published its number of parameters.
  std::int64_t n_params;    ///< As published, or exactly what the published sizes give.
  std::string_view config;  ///< JSON
};

std::span<const Preset> all_presets();

/// The config.json of a preset, or of a file. Throws BadInput for what is neither, with the nearest name.
Json preset_or_config(const std::string& name_or_path);

/// Sets keys of a config: `d_model=64`, in our names or the file's; values are JSON, what is none is text. A text for
/// d_ff is a rule (checkpoint/size_rule.h), applied when the others are set. Throws BadInput for a text without `=`.
void set_config_keys(Json& config, const std::vector<std::string>& assignments, const std::string& where);
/// The same for a table of values.
void set_config_values(Json& config, const Json& values, const std::string& where);

}  // namespace vitrine
