// The parts that text, Markdown and HTML share: the tables of a section, and the introduction and summary.
#pragma once

#include <string>
#include <vector>

#include "example/example.h"

namespace vitrine {

/// A table of a section: element (r, c) has index first + r · columns + c in its values.
struct ExampleTable {
  std::string heading;  ///< "head 1"; "" if the section has a single table.
  std::int64_t first = 0, rows = 0, columns = 0;
};

std::vector<ExampleTable> tables_of(const ExampleSection& section);
/// The label of a row or column; "" if it has none.
const std::string& label_of(const std::vector<std::string>& labels, std::int64_t i);
/// "0.314"; "~" at a kink of the loss; "" if no difference was taken.
std::string difference_text(const Difference& difference, int digits);
/// The largest |gradient − difference| of a section's smooth differences; negative if there is none.
double largest_difference(const ExampleSection& section);

/// Paragraphs of the introduction and of the summary.
std::vector<std::string> opening_of(const WorkedExample& example);
std::vector<std::string> closing_of(const WorkedExample& example);

/// The number of characters in a text, which approximates the terminal cells that it takes.
std::int64_t width_of(const std::string& text);

}  // namespace vitrine
