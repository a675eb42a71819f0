// Formats an example as plain text.
#include <fmt/format.h>

#include <algorithm>

#include "example/render.h"
#include "ops/arithmetic.h"
#include "spell/formula.h"

namespace vitrine {
namespace {

constexpr std::int64_t kLine = 110;  // wider tables are continued below

std::int64_t widest(const std::vector<std::string>& texts) {
  std::int64_t width = 0;
  for (const std::string& text : texts) width = std::max(width, width_of(text));
  return width;
}

/// Lays out as many columns as fit in a line, and the others below them.
std::string table_text(const ExampleSection& s, const ExampleTable& table, const std::vector<std::string>& cells) {
  const std::int64_t label_width = widest(s.rows);
  const std::int64_t width = std::max(widest(cells), widest(s.columns)) + 2;
  const std::int64_t at_once = std::max<std::int64_t>(1, (kLine - label_width - 2) / width);
  const bool has_origins = s.origins.size() > 1;
  std::string text;
  for (std::int64_t begin = 0; begin < table.columns; begin += at_once) {
    const std::int64_t end = std::min(table.columns, begin + at_once);
    text += fmt::format("  {:<{}}", table.heading, label_width);
    for (std::int64_t c = begin; c < end; ++c) text += fmt::format("{:>{}}", label_of(s.columns, c), width);
    text += "\n";
    for (std::int64_t r = 0; r < table.rows; ++r) {
      text += fmt::format("  {:<{}}", label_of(s.rows, r), label_width);
      for (std::int64_t c = begin; c < end; ++c) {
        text += fmt::format("{:>{}}", cells[static_cast<std::size_t>(table.first + r * table.columns + c)], width);
      }
      if (has_origins && begin == 0) text += "   " + label_of(s.origins, r);
      text += "\n";
    }
  }
  return text;
}

std::string section_text(const ExampleSection& s, const ExampleStyle& style) {
  std::string text = fmt::format("\n{}  {}", s.name, to_string(s.shape));
  if (!s.meaning.empty()) text += "  " + s.meaning;
  if (s.origins.size() == 1) text += " (" + s.origins.front() + ")";
  text += "\n";
  if (!s.formula.empty()) text += "  " + formula_text(s.formula) + "    " + s.file + "\n";
  std::vector<std::string> cells, differences;
  const bool whole = s.name.ends_with("hook_tokens") || s.name.ends_with("expert_indices");
  for (const float x : s.values) cells.push_back(decimal(static_cast<double>(x), whole ? 0 : style.digits));
  for (const Difference& d : s.differences) differences.push_back(difference_text(d, style.digits));
  for (const ExampleTable& table : tables_of(s)) text += table_text(s, table, cells);
  if (!differences.empty()) {
    text += "  finite differences:\n";
    for (const ExampleTable& table : tables_of(s)) text += table_text(s, table, differences);
    if (const double by = largest_difference(s); by >= 0) text += fmt::format("  largest deviation {:.1e}\n", by);
  }
  for (const SpelledCell& cell : s.cells) {
    text += fmt::format("  {} = {} = {}\n", cell.name.substr(cell.name.find('[')), cell.arithmetic,
                        decimal(static_cast<double>(cell.value), 4));
  }
  return text;
}

/// Breaks a paragraph into lines of at most kLine.
std::string wrapped(const std::string& text) {
  std::string result;
  std::int64_t used = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (used > 0 && used + 1 + width_of(word) > kLine) {
      result += "\n";
      used = 0;
    }
    result += (used > 0 ? " " : "") + word;
    used += (used > 0 ? 1 : 0) + width_of(word);
    at = end + 1;
  }
  return result + "\n";
}

}  // namespace

std::string example_text(const WorkedExample& e, const ExampleStyle& style) {
  std::string text = e.title + "\n\n";
  for (const std::string& note : opening_of(e)) text += wrapped(note) + "\n";
  for (const ExampleSection& s : e.sections) {
    if (s.begins_part) {
      const std::string heading(name_of(s.part));
      text += "\n" + heading + "\n" + std::string(heading.size(), '=') + "\n";
    }
    text += section_text(s, style);
  }
  text += "\n";
  for (const std::string& note : closing_of(e)) text += wrapped(note);
  return text;
}

}  // namespace vitrine
