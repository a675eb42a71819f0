#include "cli/table.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>

#include "cli/output.h"

namespace vitrine::cli {
namespace {

/// The bytes and cells of the first character of `text`. A byte that is not UTF-8 takes one cell.
std::pair<std::size_t, int> first_character(std::string_view text) {
  utf8proc_int32_t code = 0;
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                      static_cast<utf8proc_ssize_t>(text.size()), &code);
  if (bytes <= 0) return {1, 1};
  return {static_cast<std::size_t>(bytes), utf8proc_charwidth(code)};
}

std::string aligned(const std::string& cell, int width, Table::Align align) {
  const std::string space(static_cast<std::size_t>(std::max(0, width - display_width(cell))), ' ');
  return align == Table::Align::right ? space + cell : cell + space;
}

std::string markdown_cell(std::string_view cell) {
  std::string text;
  for (const char c : cell) text += c == '|' ? "\\|" : std::string(1, c);
  return text;
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const auto [bytes, cells] = first_character(text);
    width += cells;
    text.remove_prefix(bytes);
  }
  return width;
}

std::string fitted(std::string_view text, int width) {
  if (display_width(text) <= width) return std::string(text);
  std::string result;
  for (int used = 0; !text.empty();) {
    const auto [bytes, cells] = first_character(text);
    used += cells;
    if (used > width - 1) break;
    result += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return result + "…";
}

std::string in_quotes(std::string_view text) { return json_line(std::string(text)); }

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<int> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    int width = display_width(columns_[c].heading);
    for (const auto& row : rows_) {
      if (!row.empty()) width = std::max(width, display_width(row[c]));
    }
    widths.push_back(width);
  }
  std::string result;
  const auto add_line = [&](auto&& cell) {
    std::string line;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      line += (c > 0 ? "  " : "") + aligned(cell(c), widths[c], columns_[c].align);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + "\n";
  };
  const auto add_rule = [&] {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      result += c > 0 ? "──" : "";
      for (int i = 0; i < widths[c]; ++i) result += "─";
    }
    result += "\n";
  };
  add_line([&](std::size_t c) { return columns_[c].heading; });
  add_rule();
  for (const auto& row : rows_) {
    if (row.empty()) {
      add_rule();
    } else {
      add_line([&](std::size_t c) { return row[c]; });
    }
  }
  return result;
}

std::string Table::markdown() const {
  std::string result;
  const auto add_line = [&](auto&& cell) {
    result += "|";
    for (std::size_t c = 0; c < columns_.size(); ++c) result += " " + cell(c) + " |";
    result += "\n";
  };
  add_line([&](std::size_t c) { return markdown_cell(columns_[c].heading); });
  add_line([&](std::size_t c) { return std::string(columns_[c].align == Align::right ? "--:" : "---"); });
  for (const auto& row : rows_) {
    if (!row.empty()) add_line([&](std::size_t c) { return markdown_cell(row[c]); });
  }
  return result;
}

}  // namespace vitrine::cli
