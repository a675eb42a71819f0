// Escapes text for HTML, MathML and SVG, and JSON for HTML.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace vitrine {

/// Escapes `text` for use as text or as the value of an attribute: &, <, >, " and ' become entities. Control characters
/// except line breaks become spaces, because XML does not allow them.
std::string markup_escaped(std::string_view text);

/// JSON for a <script> element of another type than JavaScript, in ASCII: no text can end the element, because < is
/// \u003c. Bytes that are not UTF-8 become U+FFFD.
std::string script_json(const Json& value);

}  // namespace vitrine
