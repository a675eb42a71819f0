// Values as text: Python's str() and repr(), and its two ways to format, `text % arguments` and `text.format(…)`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "template/value.h"

namespace vitrine {
struct TemplateClock;
}

namespace vitrine::jinja {

class Renderer;
struct Arguments;

void append_str(std::string& out, const Value& value);
void append_repr(std::string& out, const Value& value);
void append_dict(std::string& out, const Dict& dict);
std::string str(const Value& value);
std::string repr(const Value& value);
/// repr() of a string.
std::string repr_text(std::string_view text);
/// repr() of a float: its shortest decimal form, with an exponent below 1e-4 and from 1e16 on.
std::string real_text(double value);
/// The float that a whole text in decimal digits spells; infinite where it is too large.
std::optional<double> parse_real(std::string_view digits);
/// The digits of |value| as the types e, f, g and % of format specifications define them.
std::string real_digits(double value, char type, int precision);

/// Escapes text for HTML as markupsafe does.
std::string escaped(std::string_view text);

/// text % arguments, and text.format(*arguments, **named). Markup escapes its arguments.
Value percent_format(Renderer& renderer, const Value& text, const Value& arguments);
Value brace_format(Renderer& renderer, const Value& text, const Arguments& arguments);

/// strftime() of a local time in the C locale, as Python's datetime has it on Linux: without a time zone.
std::string format_time(const TemplateClock& clock, std::string_view format);

}  // namespace vitrine::jinja
