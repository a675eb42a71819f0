// JSON from outside: parsed with bounded depth and unique keys, errors that name the file.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace vitrine {

using Json = nlohmann::json;

/// Parses `text`; `where` names the file in errors. Throws BadCheckpoint on a syntax error, a key that stands twice in
/// one object, nesting deeper than 64, or more than 2^20 values.
Json parse_json(std::string_view text, std::string_view where);

}  // namespace vitrine
