// A pattern as tokenizer.json writes it, {"String": …} or {"Regex": …}, and small helpers of its components.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/json.h"
#include "tokenizer/regex.h"

namespace vitrine {

using Pattern = std::variant<std::string, Regex>;

/// Throws BadCheckpoint where it is neither or is empty.
Pattern parse_pattern(const Json& json, std::string_view where);

/// `text` with every match of `pattern` replaced.
std::string replaced(std::string_view text, const Pattern& pattern, std::string_view content);

/// The bytes that `text` spells, with or without padding. Throws BadCheckpoint on anything else.
std::string decode_base64(std::string_view text, std::string_view where);

}  // namespace vitrine
