// The anchors ^ and $ of regexes.
#pragma once

#include <string_view>

#include "constrain/grammar.h"

namespace vitrine::constrain {

/// The expression `all` with `around` on each side where no anchor is, and without its anchors. Throws Unsupported for
/// an anchor elsewhere than at an end of an alternative.
Expr without_anchors(Grammar& grammar, Expr all, Expr around, std::string_view where);

}  // namespace vitrine::constrain
