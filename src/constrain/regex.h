// Regexes of ECMAScript with the flag u, as expressions.
#pragma once

#include <string_view>

#include "constrain/grammar.h"

namespace vitrine::constrain {

enum class RegexUse : std::uint8_t {
  whole,   ///< The regex is the whole text.
  search,  ///< It is found anywhere in the text, unless ^ and $ say where.
};

/// The texts that match `regex`. Throws BadInput for a syntax error, Unsupported for lookaround, backreferences, word
/// boundaries, other properties than General_Category, and ^ and $ elsewhere than at the ends of an alternative;
/// `where` names the regex in errors.
Expr parse_regex(Grammar& grammar, std::string_view regex, RegexUse use, std::string_view where);

}  // namespace vitrine::constrain
