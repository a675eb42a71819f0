// Flat YAML files: keys with text values.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace vitrine {

/// The keys at the top of a YAML mapping: scalars as texts, other values as "".
/// Throws BadCheckpoint for a text that is not valid YAML, whose top is no mapping, or in which a key appears twice.
std::map<std::string, std::string> yaml_fields(std::string_view text, const std::string& where);

}  // namespace vitrine
