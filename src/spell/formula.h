// Renders formulas as a line of text and as MathML. The notation:
//
//   x_{t,i}      an index        text x[t,i]            x^{2}  a power       text x²
//   Σ_{i}        a sum over i    text Σ_i               √(…)   a root        text √(…)
//   {a}/{b}      a fraction      text a / b, in parentheses if longer than a name
//   "words"      text
//
// Everything else is literal: names (runs of letters), numbers, signs.
#pragma once

#include <string>
#include <string_view>

namespace vitrine {

std::string formula_text(std::string_view formula);
/// A <math> element, inline.
std::string formula_mathml(std::string_view formula);

}  // namespace vitrine
