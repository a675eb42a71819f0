// JSON as Python's json module reads and writes it: keys in their order, integers apart from floats.
#pragma once

#include <string>
#include <string_view>

#include "template/renderer.h"

namespace vitrine::jinja {

/// The options of json.dumps().
struct JsonStyle {
  bool ascii = false, sort_keys = false, is_indented = false;
  std::string indent{};
  std::string item_separator = ", ", key_separator = ": ";
};

/// json.dumps(value). Throws TemplateError (TypeError) for values that JSON has no form for.
std::string to_json(Renderer& renderer, const Value& value, const JsonStyle& style);

/// Parses JSON into values of `heap`; `where` names it in errors. A key that appears twice has its last value. Throws
/// BadInput for a syntax error, nesting deeper than 200 and integers that do not fit 64 bits.
Value parse_json_value(Heap& heap, std::string_view text, std::string_view where);

}  // namespace vitrine::jinja
