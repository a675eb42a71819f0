// Which cells of an example are written out, and the summary of its finite differences.
#pragma once

#include <string>
#include <vector>

#include "example/facts.h"

namespace vitrine {

/// Writes out the requested cells, and in all other sections the largest element. Throws BadInput for a cell that does
/// not exist or has no arithmetic.
void add_cells(const Facts& facts, const std::vector<std::string>& requested, WorkedExample& example);
DifferenceSummary summary_of(const WorkedExample& example);

}  // namespace vitrine
