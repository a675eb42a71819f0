// How chosen values were made: the op's formula, its operands with their values, and the values that they were made
// from.
#pragma once

#include <map>

#include "look/data.h"
#include "look/recording.h"

namespace vitrine {

/// An element of the value at a site.
struct CellName {
  std::string site;
  std::int64_t flat = 0;
};

/// From the logit of the most likely token after the followed position back to the text: of each op the operand that
/// contributes most.
std::vector<CellName> trail_of(const GenerateContext& context, Recording& r);
/// Of a site, at the followed position.
constexpr std::size_t kLargestCells = 4;
/// The largest elements of every site at the followed position.
std::vector<CellName> largest_cells(const Recording& r);

/// The shapes of the values at the sites of a run.
using SiteShapes = std::map<std::string, Shape>;

/// The cell of a name such as `blocks.2.attn.hook_q[11,3,5]`. Throws BadInput for a site that the run lacks, and for an
/// index that its shape does not have.
CellName cell_named(const SiteShapes& shapes, const std::string& name);

/// `{"cells", "formulas"}`: the cells as `[{"name", "site", "value", "result", "formula", "file", "text", "groups",
/// "parents"}]`, where `formula` is a number of the list of MathML. The values of the operands of cell NAME are the
/// array `cell:NAME`; `groups` says what they are: `[{"of", "first", "step", "n", "shape"}]`, elements first, first +
/// step, … of the value at a site or of a parameter.
Json spell_cells(const GenerateContext& context, Recording& r, const std::vector<CellName>& cells, LookData& data);

}  // namespace vitrine
