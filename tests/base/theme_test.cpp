// The colors of the theme: their definitions in OKLCH, how far apart the two signs are for every kind of color
// vision, and the contrast of text.
#include "base/theme.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <string>

namespace vitrine::test {
namespace {

using Triple = std::array<double, 3>;
using Matrix = std::array<Triple, 3>;
using Colors = std::map<std::string, Triple>;  // linear sRGB

constexpr double kDegree = std::numbers::pi / 180;

Triple product(const Matrix& m, const Triple& x) {
  Triple y{};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t k = 0; k < 3; ++k) y[i] += m[i][k] * x[k];
  }
  return y;
}

Triple linear(const std::string& hex) {
  Triple rgb{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double x = std::stoi(hex.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    rgb[i] = x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
  }
  return rgb;
}

/// The colors of the light theme, or of the dark one.
Colors colors_of(bool dark) {
  const std::string style(kThemeStyle);
  const std::size_t middle = style.find("@media");
  const std::string part = dark ? style.substr(middle) : style.substr(0, middle);
  Colors colors;
  for (std::size_t at = part.find("--"); at != std::string::npos; at = part.find("--", at + 2)) {
    const std::size_t colon = part.find(':', at);
    colors[part.substr(at + 2, colon - at - 2)] = linear(part.substr(part.find('#', colon), 7));
  }
  return colors;
}

/// Lightness, chroma and hue in degrees. Source: Ottosson 2020, "A perceptual color space for image processing".
Triple oklch(const Triple& rgb) {
  constexpr Matrix kToLms = {{{0.4122214708, 0.5363325363, 0.0514459929},
                              {0.2119034982, 0.6806995451, 0.1073969566},
                              {0.0883024619, 0.2817188376, 0.6299787005}}};
  constexpr Matrix kToLab = {{{0.2104542553, 0.7936177850, -0.0040720468},
                              {1.9779984951, -2.4285922050, 0.4505937099},
                              {0.0259040371, 0.7827717662, -0.8086757660}}};
  Triple lms = product(kToLms, rgb);
  for (double& x : lms) x = std::cbrt(x);
  const Triple lab = product(kToLab, lms);
  const double hue = std::atan2(lab[2], lab[1]) / kDegree;
  return {lab[0], std::hypot(lab[1], lab[2]), hue < 0 ? hue + 360 : hue};
}

/// CIELAB with the white point D65.
Triple cielab(const Triple& rgb) {
  constexpr Matrix kToXyz = {
      {{0.4124564, 0.3575761, 0.1804375}, {0.2126729, 0.7151522, 0.0721750}, {0.0193339, 0.1191920, 0.9503041}}};
  Triple f = product(kToXyz, rgb);
  constexpr Triple kWhite = {0.95047, 1, 1.08883};
  for (std::size_t i = 0; i < 3; ++i) {
    const double x = f[i] / kWhite[i];
    f[i] = x > 216.0 / 24389 ? std::cbrt(x) : (24389.0 / 27 * x + 16) / 116;
  }
  return {116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])};
}

/// ΔE2000. Source: Sharma, Wu & Dalal 2005.
double difference(const Triple& rgb1, const Triple& rgb2) {
  const Triple p = cielab(rgb1), q = cielab(rgb2);
  const double mean_c = (std::hypot(p[1], p[2]) + std::hypot(q[1], q[2])) / 2;
  const double g = 0.5 * (1 - std::sqrt(std::pow(mean_c, 7) / (std::pow(mean_c, 7) + std::pow(25, 7))));
  const double a1 = (1 + g) * p[1], a2 = (1 + g) * q[1];
  const double c1 = std::hypot(a1, p[2]), c2 = std::hypot(a2, q[2]);
  const auto hue = [](double b, double a) {
    const double h = b == 0 && a == 0 ? 0 : std::atan2(b, a) / kDegree;
    return h < 0 ? h + 360 : h;
  };
  const double h1 = hue(p[2], a1), h2 = hue(q[2], a2);
  double dh = c1 * c2 == 0 ? 0 : h2 - h1, h = h1 + h2;
  if (dh > 180) dh -= 360;
  if (dh < -180) dh += 360;
  if (c1 * c2 != 0) h = std::abs(h1 - h2) <= 180 ? h / 2 : (h < 360 ? (h + 360) / 2 : (h - 360) / 2);
  const double l = (p[0] + q[0]) / 2, c = (c1 + c2) / 2;
  const double t = 1 - 0.17 * std::cos((h - 30) * kDegree) + 0.24 * std::cos(2 * h * kDegree) +
                   0.32 * std::cos((3 * h + 6) * kDegree) - 0.20 * std::cos((4 * h - 63) * kDegree);
  const double sl = 1 + 0.015 * (l - 50) * (l - 50) / std::sqrt(20 + (l - 50) * (l - 50));
  const double sc = 1 + 0.045 * c, sh = 1 + 0.015 * c * t;
  const double rotation = -std::sin(60 * std::exp(-std::pow((h - 275) / 25, 2)) * kDegree) * 2 *
                          std::sqrt(std::pow(c, 7) / (std::pow(c, 7) + std::pow(25, 7)));
  const double x = (q[0] - p[0]) / sl, y = (c2 - c1) / sc, z = 2 * std::sqrt(c1 * c2) * std::sin(dh / 2 * kDegree) / sh;
  return std::sqrt(x * x + y * y + z * z + rotation * y * z);
}

// Source: Machado, Oliveira & Fernandes 2009, severity 1.
const std::map<std::string, Matrix> kColorVision = {
    {"protanopia",
     {{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}}},
    {"deuteranopia",
     {{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}}},
    {"tritanopia",
     {{{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}}}};

double luminance(const Triple& rgb) { return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]; }
double contrast(const Triple& a, const Triple& b) {
  const double x = luminance(a) + 0.05, y = luminance(b) + 0.05;
  return std::max(x, y) / std::min(x, y);
}

void expect_oklch(const Triple& rgb, const Triple& expected) {
  const Triple found = oklch(rgb);
  EXPECT_NEAR(found[0], expected[0], 0.004);
  EXPECT_NEAR(found[1], expected[1], 0.004);
  EXPECT_NEAR(found[2], expected[2], 3);
}

TEST(Theme, TheDifferenceIsThatOfThePublishedPairs) {
  // Black and white differ in lightness only.
  EXPECT_NEAR(difference({0, 0, 0}, {1, 1, 1}), 100, 1e-3);
  EXPECT_NEAR(difference({1, 0, 0}, {0, 0, 1}), 52.88, 0.01);
}

TEST(Theme, TheRampsHaveTheirDefinitions) {
  const Colors light = colors_of(false), dark = colors_of(true);
  expect_oklch(light.at("positive"), {0.55, 0.10, 235});
  expect_oklch(light.at("negative"), {0.55, 0.10, 55});
  expect_oklch(light.at("magnitude"), {0.30, 0.06, 235});
  EXPECT_NEAR(oklch(dark.at("magnitude"))[0], 0.90, 0.004);
  EXPECT_NEAR(oklch(dark.at("positive"))[0], oklch(dark.at("negative"))[0], 0.004);
}

TEST(Theme, TheSignsDifferForEveryKindOfColorVision) {
  const Colors light = colors_of(false), dark = colors_of(true);
  EXPECT_NEAR(difference(light.at("positive"), light.at("negative")), 41, 1);
  for (const Colors* colors : {&light, &dark}) {
    for (const auto& [name, matrix] : kColorVision) {
      const double seen = difference(product(matrix, colors->at("positive")), product(matrix, colors->at("negative")));
      EXPECT_GE(seen, 39) << name << (colors == &dark ? ", dark" : ", light");
    }
  }
}

TEST(Theme, TextCanBeRead) {
  for (const bool dark : {false, true}) {
    const Colors colors = colors_of(dark);
    for (const char* const name : {"ink", "soft", "note", "link", "attention", "mlp", "norm"}) {
      EXPECT_GE(contrast(colors.at(name), colors.at("paper")), 4.5) << name;
    }
  }
}

}  // namespace
}  // namespace vitrine::test
