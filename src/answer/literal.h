// Values within texts: JSON, or Python's literals, which templates write where they print a value.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "base/ordered_json.h"

namespace vitrine::answer {

/// The value at the beginning of `text` and its number of bytes. None if there is none.
std::optional<std::pair<OrderedJson, std::size_t>> read_json(std::string_view text);

/// The same of a literal of Python (True, None, 'text', lists, tuples, dicts with texts as keys) or JSON.
std::optional<std::pair<OrderedJson, std::size_t>> read_literal(std::string_view text);

/// The same. Sets `reached_end` if more text could change the result.
std::optional<std::pair<OrderedJson, std::size_t>> read_literal(std::string_view text, bool& reached_end);

}  // namespace vitrine::answer
