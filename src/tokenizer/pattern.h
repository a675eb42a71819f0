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

/// `text` with every match of `pattern` replaced. Throws OutOfCapacity where that would be longer than `most` bytes and
/// longer than `text`.
std::string replaced(std::string_view text, const Pattern& pattern, std::string_view content, std::size_t most);

/// Gives `text` back; throws OutOfCapacity where it is longer than `most` bytes.
std::string checked_size(std::string text, std::size_t most);

/// The bytes that `text` spells, with or without padding. Throws BadCheckpoint on anything else.
std::string decode_base64(std::string_view text, std::string_view where);

}  // namespace vitrine
