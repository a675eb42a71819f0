// The config.json of published architectures, by name.
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
  std::string name;
  std::string source;         ///< The checkpoint, and the source of its number of parameters.
  std::int64_t n_params = 0;  ///< As published, or computed from the published sizes.
  std::string like{};         ///< Another preset, which supplies the keys that `config` lacks; empty: none.
  Json config{};
};

/// Those of presets.json, which is a part of the library.
std::span<const Preset> all_presets();
std::vector<Preset> read_presets(std::string_view json);

/// The config.json of a preset, or of a file or folder, there of its text half. Otherwise throws BadInput with the
/// nearest name.
Json preset_or_config(const std::string& name_or_path);

/// A size that a rule derives from d_model: a multiple or fraction of d, optionally rounded up to a multiple, as in
/// `4 d` or `8/3 d, round up to 64`. Exact: 8/3 of 64 rounded up to 64 is 192. Throws BadInput for any other rule, and
/// if the size is not a whole number from 1 to 2^31 − 1.
std::int64_t size_by_rule(std::string_view rule, std::int64_t d_model);

/// Sets keys of a config by texts such as `d_model=64`. The key is our name or the config's; the value is JSON or, if
/// it is not valid JSON, a text. A text for d_ff is a rule for size_by_rule(), which is applied after the other
/// keys. Throws BadInput for a text without `=`.
void set_config_keys(Json& config, const std::vector<std::string>& assignments, const std::string& where);
/// The same for an object of values.
void set_config_values(Json& config, const Json& values, const std::string& where);

}  // namespace vitrine
