// Text within HTML, MathML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace vitrine {

/// `text` as text or as an attribute's value: &, <, >, " and ' become entities. XML knows no control characters but
/// line breaks, so others become blanks.
std::string markup_escaped(std::string_view text);

}  // namespace vitrine
