// Tables for a terminal, and the same as Markdown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vitrine::cli {

/// The cells that `text` takes on a terminal: wide characters take two, combining ones none.
int display_width(std::string_view text);
/// `text`, cut to at most `width` cells; what was cut ends in …
std::string fitted(std::string_view text, int width);
/// Text for people: in quotes, control characters escaped, broken UTF-8 replaced.
std::string in_quotes(std::string_view text);
/// 1234567 as 1,234,567.
std::string grouped(std::int64_t number);
/// Columns of the terminal; 100 where there is none.
int terminal_columns();

/// Rows of cells under a heading. Numbers stand to the right, texts to the left.
class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string heading;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// As many cells as columns; fewer leave the rest empty.
  void add(std::vector<std::string> cells);
  /// A line between what stands above and below.
  void rule() { rows_.emplace_back(); }

  std::string text() const;
  std::string markdown() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty one is a rule
};

}  // namespace vitrine::cli
