// Escapes text for HTML, MathML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace vitrine {

/// Escapes `text` for use as text or as the value of an attribute: &, <, >, " and ' become entities. Control characters
/// except line breaks become spaces, because XML does not allow them.
std::string markup_escaped(std::string_view text);

}  // namespace vitrine
