// The patterns of tokenizer.json, {"String": …} or {"Regex": …}, and replacements of their matches.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "tokenizer/regex.h"

namespace vitrine {

/// Throws BadCheckpoint if the pattern is neither a string nor a regex, or is empty.
Pattern parse_pattern(const Json& json, std::string_view where);

/// `text` with every match of `pattern` replaced by `content`. Throws OutOfCapacity if the result is longer than `most`
/// bytes and longer than `text`.
std::string replaced(std::string_view text, const Pattern& pattern, std::string_view content, std::size_t most);

/// Returns `text`. Throws OutOfCapacity if it is longer than `most` bytes.
std::string checked_size(std::string text, std::size_t most);

}  // namespace vitrine
