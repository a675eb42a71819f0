// Finds the family of a config.json and resolves its config.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/family.h"

namespace vitrine {

/// The JSON of a file. Throws as parse_json() and MappedFile::open() do.
Json read_json_file(const std::string& path);

/// The family of the model_type in `config`. Throws BadCheckpoint if there is none, Unsupported for an unknown one and
/// for `architectures` of which the family has none. `where` names the file in messages.
Family family_of(const Json& config, const std::string& where);

/// `config` with the class that has no head in place of one that the family does not have, if `allowed` lists
/// `architectures`. Throws as family_of().
Json with_allowed_class(Json config, const std::string& where, const std::vector<std::string>& allowed);

/// Whether `architectures` names the encoder of an encoder–decoder, such as T5EncoderModel.
bool is_encoder_alone(ConfigReader& config);

/// Reads and validates the config; `allowed` lists unknown keys to accept. Throws BadCheckpoint, Unsupported.
ModelConfig read_model_config(const Family& family, const Json& config, const std::string& where,
                              const std::vector<std::string>& allowed = {});

}  // namespace vitrine
