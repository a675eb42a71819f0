// The methods of Python's str.
#pragma once

#include <string_view>

#include "template/renderer.h"

namespace vitrine::jinja {

/// The method of str, or of Markup, with a name, or null. Methods of Markup return Markup and escape their arguments.
Builtin* find_text_method(std::string_view name, bool is_markup);

}  // namespace vitrine::jinja
