// All text on the HTML page has a contrast ratio of at least 4.5 to its background, in light and dark mode. Source:
// WCAG 2.2, success criterion 1.4.3; relative luminance and contrast ratio as defined there.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "example/example.h"

namespace vitrine::test {
namespace {

constexpr double kLeast = 4.5;

using Color = std::array<double, 3>;  // red, green, blue, 0 to 255
using Palette = std::map<std::string, Color>;

struct Rule {
  std::string selector, declarations;
};

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \n"), end = text.find_last_not_of(" \n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

/// All rules in order. An @media rule, which has no declarations, precedes the rules that it contains.
std::vector<Rule> rules_of(const std::string& css) {
  std::vector<Rule> rules;
  std::size_t at = 0;
  for (std::size_t stop = css.find_first_of("{}"); stop != std::string::npos; stop = css.find_first_of("{}", at)) {
    const std::string text = trimmed(css.substr(at, stop - at));
    at = stop + 1;
    if (css[stop] == '{') {
      rules.push_back({text, ""});
    } else if (!text.empty()) {
      rules.back().declarations = text;
    }
  }
  return rules;
}

/// The value of a property; "" if it is not declared.
std::string value_of(const std::string& declarations, const std::string& property) {
  const std::string text = "; " + declarations;
  for (std::size_t at = text.find(property + ":"); at != std::string::npos; at = text.find(property + ":", at + 1)) {
    if (text[at - 1] != ' ' && text[at - 1] != '\n') continue;
    const std::size_t begin = at + property.size() + 1;
    return trimmed(text.substr(begin, text.find(';', begin) - begin));
  }
  return "";
}

Palette palette_of(const std::string& declarations) {
  Palette palette;
  for (std::size_t at = declarations.find("--"); at != std::string::npos; at = declarations.find("--", at + 2)) {
    const std::size_t colon = declarations.find(':', at), hash = declarations.find('#', colon);
    const auto part = [&](std::size_t i) {
      return static_cast<double>(std::stoi(declarations.substr(i, 2), nullptr, 16));
    };
    palette[declarations.substr(at + 2, colon - at - 2)] = {part(hash + 1), part(hash + 3), part(hash + 5)};
  }
  return palette;
}

double luminance(const Color& color) {
  const auto linear = [](double x) {
    x /= 255;
    return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(color[0]) + 0.7152 * linear(color[1]) + 0.0722 * linear(color[2]);
}

double contrast(const Color& a, const Color& b) {
  const double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

/// `var(--ink)` → ink
std::string variable_in(const std::string& value) {
  const std::size_t begin = value.find("var(--");
  EXPECT_NE(begin, std::string::npos) << "a color outside the palette: " << value;
  return begin == std::string::npos ? "paper" : value.substr(begin + 6, value.find(')', begin) - begin - 6);
}

/// `color-mix(in srgb, var(--positive) 35%, transparent)` over the background `paper`.
Color shade_of(const std::string& value, const Palette& palette) {
  const Color &ink = palette.at(variable_in(value)), &paper = palette.at("paper");
  const double part = std::stod(value.substr(value.find(')') + 1)) / 100;
  Color mixed;
  for (std::size_t i = 0; i < 3; ++i) mixed[i] = part * ink[i] + (1 - part) * paper[i];
  return mixed;
}

/// Returns the number of pairs.
int check_scheme(const std::vector<Rule>& rules, const Palette& palette) {
  std::vector<Color> shades;
  for (const Rule& rule : rules) {
    const std::string background = value_of(rule.declarations, "background");
    if (background.starts_with("color-mix(")) {
      shades.push_back(shade_of(background, palette));
    } else if (!background.empty()) {
      EXPECT_EQ(background, "var(--paper)") << rule.selector;
    }
  }
  EXPECT_EQ(shades.size(), 18U);
  int pairs = 0;
  const auto check = [&](const std::string& text, const Color& background, const std::string& where) {
    EXPECT_GE(contrast(palette.at(text), background), kLeast) << text << " in " << where;
    ++pairs;
  };
  for (const Color& shade : shades) check("ink", shade, "a shaded cell");
  for (const Rule& rule : rules) {
    const std::string color = value_of(rule.declarations, "color");
    if (color.empty()) continue;
    check(variable_in(color), palette.at("paper"), rule.selector);
    if (!rule.selector.starts_with("td")) continue;
    for (const Color& shade : shades) check(variable_in(color), shade, rule.selector + ", shaded");
  }
  return pairs;
}

TEST(Contrast, ComputesTheRatiosOfTheSpecification) {
  EXPECT_DOUBLE_EQ(contrast({0, 0, 0}, {255, 255, 255}), 21);
  EXPECT_NEAR(contrast({0x77, 0x77, 0x77}, {255, 255, 255}), 4.48, 0.005);
}

TEST(Contrast, IsSufficientForEveryTextOfThePage) {
  WorkedExample example;
  example.labels = {"a"};
  const std::string page = example_html(example);
  const std::size_t begin = page.find("<style>") + 7;
  const std::vector<Rule> rules = rules_of(page.substr(begin, page.find("</style>") - begin));
  Palette light, dark;
  for (const Rule& rule : rules) {
    if (!rule.selector.starts_with(":root")) continue;
    (light.empty() ? light : dark) = palette_of(rule.declarations);
  }
  for (const auto& [name, palette] : {std::pair{"light", light}, std::pair{"dark", dark}}) {
    SCOPED_TRACE(name);
    EXPECT_GE(check_scheme(rules, palette), 18 + 36 + 10);
  }
}

}  // namespace
}  // namespace vitrine::test
