// Finds the family of a config.json and resolves its config.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/family.h"

namespace vitrine {

/// The JSON of a file. Throws as parse_json() and MappedFile::open() do.
Json read_json_file(const std::string& path);

/// The family of the model_type in `config`. Throws BadCheckpoint if there is none, Unsupported for an unknown one.
/// `where` names the file in messages.
const Family& family_of(const Json& config, const std::string& where);

/// Reads and validates the config; `allowed` lists unknown keys to accept. Throws BadCheckpoint, Unsupported.
ModelConfig read_model_config(const Family& family, const Json& config, const std::string& where,
                              const std::vector<std::string>& allowed = {});

}  // namespace vitrine
