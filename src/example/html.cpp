// Formats an example as a self-contained HTML page, without scripts, in the light or dark style of the system.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/markup.h"
#include "base/theme.h"
#include "example/html_style.h"
#include "example/render.h"
#include "ops/arithmetic.h"
#include "spell/formula.h"

namespace vitrine {
namespace {

/// An anchor: letters, digits and dots are kept; every other byte becomes a dash.
std::string anchor(const std::string& name) {
  std::string result = "s-";
  for (const char c : name) result += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' ? c : '-';
  return result;
}

constexpr int kShades = 9;  // of each sign, in steps of 5 %

std::string shade_rules() {
  std::string rules;
  for (int level = 1; level <= kShades; ++level) {
    for (const char* sign : {"positive", "negative"}) {
      rules += fmt::format(".{}{} {{ background: color-mix(in srgb, var(--{}) {}%, transparent); }}\n", sign[0], level,
                           sign, 5 * level);
    }
  }
  return rules;
}

/// The class of a cell: "p3" for a positive one, "n9" for the most negative of its matrix, "" near 0.
std::string shade(float value, float largest) {
  if (largest == 0 || !std::isfinite(value)) return "";
  const int level = static_cast<int>(std::lround(kShades * std::abs(value) / largest));
  return level == 0 ? "" : fmt::format("{}{}", value > 0 ? 'p' : 'n', level);
}

std::string table_html(const ExampleSection& s, const ExampleTable& table, float largest, const ExampleStyle& style) {
  const bool has_rows = !s.rows.empty(), has_origins = s.origins.size() > 1;
  std::string text = "<table><thead><tr>";
  if (has_rows) text += "<td>" + markup_escaped(table.heading) + "</td>";
  for (std::int64_t c = 0; c < table.columns; ++c) {
    text += "<th scope=\"col\">" + markup_escaped(label_of(s.columns, c)) + "</th>";
  }
  text += has_origins ? "<td></td></tr></thead><tbody>\n" : "</tr></thead><tbody>\n";
  for (std::int64_t r = 0; r < table.rows; ++r) {
    text += "<tr>";
    if (has_rows) text += "<th scope=\"row\">" + markup_escaped(label_of(s.rows, r)) + "</th>";
    for (std::int64_t c = 0; c < table.columns; ++c) {
      const auto i = static_cast<std::size_t>(table.first + r * table.columns + c);
      const std::string color = shade(s.values[i], largest);
      text += color.empty() ? "<td>" : "<td class=\"" + color + "\">";
      text += decimal(static_cast<double>(s.values[i]), style.digits);
      if (!s.differences.empty() && s.differences[i].taken) {
        text += "<small>" + difference_text(s.differences[i], style.digits) + "</small>";
      }
      text += "</td>";
    }
    if (has_origins) text += "<td class=\"origin\">" + markup_escaped(label_of(s.origins, r)) + "</td>";
    text += "</tr>\n";
  }
  return text + "</tbody></table>\n";
}

float largest_of(const ExampleSection& s) {
  float largest = 0;
  for (const float x : s.values) {
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  return largest;
}

std::string section_html(const ExampleSection& s, const ExampleStyle& style) {
  std::string text = fmt::format("<section id=\"{}\">\n<h3><code>{}</code> <span class=\"shape\">{}</span></h3>\n",
                                 anchor(s.name), markup_escaped(s.name), to_string(s.shape));
  // Elements that scroll on a narrow screen must be reachable by keyboard.
  const auto scrolling = [&](const char* what) {
    return fmt::format(" tabindex=\"0\" role=\"group\" aria-label=\"{} of {}\">", what, markup_escaped(s.name));
  };
  std::string meaning = s.meaning;
  if (s.origins.size() == 1) meaning += meaning.empty() ? s.origins.front() : " (" + s.origins.front() + ")";
  if (!meaning.empty()) text += "<p class=\"meaning\">" + markup_escaped(meaning) + "</p>\n";
  if (!s.formula.empty()) {
    text += "<p class=\"formula\"" + scrolling("formula") + formula_mathml(s.formula) + "<span class=\"file\">" +
            markup_escaped(s.file) + "</span></p>\n";
  }
  text += "<div class=\"wide\"" + scrolling("values");
  for (const ExampleTable& table : tables_of(s)) text += table_html(s, table, largest_of(s), style);
  text += "</div>\n";
  if (const double by = largest_difference(s); by >= 0) {
    text +=
        fmt::format("<p class=\"note\">below each gradient: its finite difference; largest deviation {:.1e}</p>\n", by);
  }
  for (const SpelledCell& cell : s.cells) {
    text += fmt::format("<p class=\"cell\"><b>{}</b> = {} = <b>{}</b></p>\n",
                        markup_escaped(cell.name.substr(cell.name.find('['))), markup_escaped(cell.arithmetic),
                        decimal(static_cast<double>(cell.value), 4));
  }
  return text + "</section>\n";
}

std::string contents_html(const WorkedExample& e) {
  std::string text = "<nav aria-label=\"Contents\">\n";
  const char* const end = "</ul></details>\n";
  for (const ExampleSection& s : e.sections) {
    if (s.begins_part) {
      const bool is_first = &s == &e.sections.front();
      text += fmt::format("{}<details><summary>{}</summary><ul>\n", is_first ? "" : end, name_of(s.part));
    }
    text += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", anchor(s.name), markup_escaped(s.name));
  }
  return text + end + "</nav>\n";
}

/// The tokens of the text, and the one to be predicted.
std::string sentence_html(const WorkedExample& e) {
  std::string text = "<p class=\"sentence\">";
  for (const std::int32_t id : e.ids) {
    text += "<span>" + markup_escaped(e.labels[static_cast<std::size_t>(id)]) + "<small>" + std::to_string(id) +
            "</small></span>";
  }
  return text + "<i>→</i><span class=\"target\">" + markup_escaped(e.labels[static_cast<std::size_t>(e.target)]) +
         "<small>" + std::to_string(e.target) + "</small></span></p>\n";
}

}  // namespace

std::string example_html(const WorkedExample& e, const ExampleStyle& style) {
  const std::string title = markup_escaped(e.title);
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
      title + "</title>\n<style>\n" + std::string(kThemeStyle) + std::string(kExampleStyle) + shade_rules() +
      "</style>\n</head>\n<body>\n" + contents_html(e) + "<main>\n<header>\n<h1>" + title + "</h1>\n" +
      sentence_html(e);
  for (const std::string& note : opening_of(e)) text += "<p>" + markup_escaped(note) + "</p>\n";
  for (const std::string& note : closing_of(e)) text += "<p class=\"result\">" + markup_escaped(note) + "</p>\n";
  text += "</header>\n";
  for (const ExampleSection& s : e.sections) {
    if (s.begins_part) text += fmt::format("<h2>{}</h2>\n", name_of(s.part));
    text += section_html(s, style);
  }
  return text + "</main>\n</body>\n</html>\n";
}

}  // namespace vitrine
