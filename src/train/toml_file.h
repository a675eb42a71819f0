// TOML files as JSON values, with the line of each key.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/json.h"

namespace vitrine {

struct TomlFile {
  Json values;  ///< An object; tables are objects.
  std::map<std::string, int>
      lines;  ///< By path, as in `train.batch`; for a table, its first line. Empty without a text.

  /// "FILE:LINE" of a key, where `file` is the file's path; the path alone if the line is not known.
  std::string place_of(const std::string& key, const std::string& file) const {
    const auto line = lines.find(key);
    return line == lines.end() ? file : file + ":" + std::to_string(line->second);
  }
};

/// Throws BadInput, with file and line, for invalid TOML, dates, and numbers that are not finite. Source: TOML 1.0.0
/// (toml.io).
TomlFile parse_toml(std::string_view text, const std::string& path);

}  // namespace vitrine
