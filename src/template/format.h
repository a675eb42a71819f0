// Python's str() and repr().
#pragma once

#include <string>
#include <string_view>

#include "template/value.h"

namespace vitrine::jinja {

void append_str(std::string& out, const Value& value);
void append_repr(std::string& out, const Value& value);
std::string str(const Value& value);
std::string repr(const Value& value);
/// repr() of a string.
std::string repr_text(std::string_view text);
/// repr() of a float: its shortest decimal form, with an exponent below 1e-4 and from 1e16 on.
std::string real_text(double value);

/// Escapes text for HTML as markupsafe does.
std::string escaped(std::string_view text);

}  // namespace vitrine::jinja
