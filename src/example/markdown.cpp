// Formats an example as Markdown, with the tables that most renderers support.
#include <fmt/format.h>

#include "example/render.h"
#include "ops/arithmetic.h"
#include "spell/formula.h"

namespace vitrine {
namespace {

/// Escapes what Markdown would interpret, also in a table.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      result += ' ';
      continue;
    }
    if (std::string_view("\\`*_[]<>|#~").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string markdown_table(const ExampleSection& s, const ExampleTable& table, const std::vector<std::string>& cells) {
  const bool has_origins = s.origins.size() > 1;
  std::string text = "| " + escaped(table.heading) + " |", rule = "|---|";
  for (std::int64_t c = 0; c < table.columns; ++c) {
    text += " " + escaped(label_of(s.columns, c)) + " |";
    rule += "---:|";
  }
  if (has_origins) {
    text += " |";
    rule += "---|";
  }
  text += "\n" + rule + "\n";
  for (std::int64_t r = 0; r < table.rows; ++r) {
    text += "| " + escaped(label_of(s.rows, r)) + " |";
    for (std::int64_t c = 0; c < table.columns; ++c) {
      text += " " + escaped(cells[static_cast<std::size_t>(table.first + r * table.columns + c)]) + " |";
    }
    if (has_origins) text += " " + escaped(label_of(s.origins, r)) + " |";
    text += "\n";
  }
  return text + "\n";
}

std::string markdown_section(const ExampleSection& s, const ExampleStyle& style) {
  std::string text = fmt::format("### `{}` {}\n\n", s.name, escaped(to_string(s.shape)));
  if (!s.meaning.empty()) text += escaped(s.meaning) + ". ";
  if (s.origins.size() == 1) text += escaped(s.origins.front()) + ". ";
  if (!s.formula.empty()) text += "`" + formula_text(s.formula) + "` ";
  if (!s.file.empty()) text += "(`" + s.file + "`)";
  text += "\n\n";
  std::vector<std::string> cells, differences;
  for (const float x : s.values) cells.push_back(decimal(static_cast<double>(x), style.digits));
  for (const Difference& d : s.differences) differences.push_back(difference_text(d, style.digits));
  for (const ExampleTable& table : tables_of(s)) text += markdown_table(s, table, cells);
  if (!differences.empty()) {
    text += "Finite differences";
    if (const double by = largest_difference(s); by >= 0) text += fmt::format(" (largest deviation {:.1e})", by);
    text += ":\n\n";
    for (const ExampleTable& table : tables_of(s)) text += markdown_table(s, table, differences);
  }
  for (const SpelledCell& cell : s.cells) {
    text += fmt::format("`{} = {} = {}`\n\n", cell.name.substr(cell.name.find('[')), cell.arithmetic,
                        decimal(static_cast<double>(cell.value), 4));
  }
  return text;
}

}  // namespace

std::string example_markdown(const WorkedExample& e, const ExampleStyle& style) {
  std::string text = "# " + escaped(e.title) + "\n\n";
  for (const std::string& note : opening_of(e)) text += escaped(note) + "\n\n";
  for (const ExampleSection& s : e.sections) {
    if (s.begins_part) text += fmt::format("## {}\n\n", name_of(s.part));
    text += markdown_section(s, style);
  }
  for (const std::string& note : closing_of(e)) text += escaped(note) + "\n\n";
  return text;
}

}  // namespace vitrine
