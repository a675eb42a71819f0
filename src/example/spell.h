// The formula and the arithmetic of each matrix of the example, from the ops that made and used it.
#pragma once

#include <optional>
#include <string>

#include "example/facts.h"
#include "ops/arithmetic.h"
#include "spell/words.h"

namespace vitrine {

/// Of the gradient at a site. The formula is empty if the gradient passes unchanged.
SectionWords gradient_words_of(const Facts& facts, const std::string& site);
/// Of a parameter's gradient.
SectionWords param_gradient_words_of(const Facts& facts, const std::string& param);

/// The arithmetic of element `flat` of the value at a site, of a gradient (`grad:NAME`; `input:` and `head:` for the
/// parts of the embedding's), or of a parameter after the update (`new:NAME`). Empty if the value equals another one,
/// or if the arithmetic is too long.
std::optional<Arithmetic> spell(const Facts& facts, const std::string& section, std::int64_t flat);
/// Spells out the requested cells (SECTION[index]); by default, the largest element of a parameter or of the last row
/// of a site. Throws BadInput for a cell that does not exist or has no arithmetic. Also summarizes the differences.
void add_cells(const Facts& facts, const std::vector<std::string>& requested, WorkedExample& example);

}  // namespace vitrine
