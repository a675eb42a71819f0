// The methods of Python's str.
#pragma once

#include <string_view>

#include "template/renderer.h"

namespace vitrine::jinja {

/// The method of str with a name, or null. Methods of Markup return Markup and escape their arguments.
Builtin* find_text_method(std::string_view name);

}  // namespace vitrine::jinja
