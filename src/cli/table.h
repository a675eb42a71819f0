// Tables, as text for a terminal and as Markdown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vitrine::cli {

/// The number of terminal cells that `text` takes: wide characters take two, combining ones none.
int display_width(std::string_view text);
/// `text`, truncated to `width` cells; truncated text ends in …
std::string fitted(std::string_view text, int width);
/// Text in quotes, with control characters escaped and broken UTF-8 replaced.
std::string in_quotes(std::string_view text);
/// 1234567 as 1,234,567.
std::string grouped(std::int64_t number);
/// The width of the terminal; 100 if stdout is not one.
int terminal_columns();

/// Rows of cells under a heading.
class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string heading;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// Missing cells at the end of a row are empty.
  void add(std::vector<std::string> cells);
  /// A horizontal line.
  void rule() { rows_.emplace_back(); }

  std::string text() const;
  std::string markdown() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty one is a rule
};

}  // namespace vitrine::cli
