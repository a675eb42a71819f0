// What text, Markdown and HTML share: a section as tables, and the sentences around them.
#pragma once

#include <string>
#include <vector>

#include "example/example.h"

namespace vitrine {

/// A table of a section: element (r, c) is number first + r · columns + c of its values.
struct ExampleTable {
  std::string heading;  ///< "head 1"; "" where the section has one table.
  std::int64_t first = 0, rows = 0, columns = 0;
};

std::vector<ExampleTable> tables_of(const ExampleSection& section);
/// The label of a row or column; "" where it has none.
const std::string& label_of(const std::vector<std::string>& labels, std::int64_t i);
/// "0.314"; "~" where the loss has a kink, "" where no difference was taken.
std::string difference_text(const Difference& difference, int digits);
/// The largest |gradient − difference| of a section where the fit holds; below 0 where there is none.
double largest_difference(const ExampleSection& section);

/// What a reader should know first, and what came of it; a sentence or two each.
std::vector<std::string> opening_of(const WorkedExample& example);
std::vector<std::string> closing_of(const WorkedExample& example);

/// Cells that a text takes on a terminal, of the characters that stand here.
std::int64_t width_of(const std::string& text);

}  // namespace vitrine
