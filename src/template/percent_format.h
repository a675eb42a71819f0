// Python's ways to format text: `text % arguments`, `text.format(…)` and the format specifications of both.
#pragma once

#include <string>
#include <string_view>

#include "template/renderer.h"

namespace vitrine::jinja {

/// text % arguments. Markup escapes its arguments.
Value percent_format(Renderer& renderer, const Value& text, const Value& arguments);

/// text.format(*arguments, **named), with attributes and items read as the sandbox reads them. `mapping`, if it is not
/// missing, has the named arguments (`format_map`).
Value brace_format(Renderer& renderer, const Value& text, const Arguments& arguments, const Value& mapping);

/// The digits of a finite or infinite |value| as the types e, f, g, E, F, G and % of format specifications define them.
std::string real_digits(double value, char type, int precision, bool alternate);
/// The digits of an integer's magnitude in the base of the types d, b, o, x and X.
std::string integer_digits(std::int64_t value, char type);
/// format(value, specification).
std::string format_value(Renderer& renderer, const Value& value, std::string_view specification);
/// ascii() of repr() text: other characters become escapes.
std::string ascii_only(std::string_view text);

}  // namespace vitrine::jinja
