// TOML files as JSON values, with the line on which each key stands.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/json.h"

namespace vitrine {

struct TomlFile {
  Json values;                       ///< An object; tables are objects.
  std::map<std::string, int> lines;  ///< By path, as in `train.batch`; of tables where they begin.
};

/// Throws BadInput, naming file and line, for what is no TOML, for dates, and for numbers that are not finite. Source:
/// TOML 1.0.0 (toml.io).
TomlFile parse_toml(std::string_view text, const std::string& path);

}  // namespace vitrine
