// Texts that do not contain certain others.
#pragma once

#include <span>
#include <string>

#include "constrain/grammar.h"

namespace vitrine::constrain {

/// All texts in which none of `marks`, each at least one character, occurs. Source: Aho and Corasick 1975.
Expr text_without(Grammar& grammar, std::span<const std::string> marks);

/// All texts that begin with none of `marks`, apart from white space before them.
Expr text_not_beginning(Grammar& grammar, std::span<const std::string> marks);

}  // namespace vitrine::constrain
