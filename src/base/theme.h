// The colors of everything that vitrine draws: plots, the worked example and the page. docs/page.md explains them.
//
// They are defined in OKLCH: L lightness, C chroma, h hue in degrees. A sign has the same lightness above and below
// zero, so that a grayscale print keeps magnitudes, and hues that differ for every kind of color vision.
#pragma once

#include <string_view>

namespace vitrine {

constexpr std::string_view kThemeStyle = R"css(:root {
  --paper: #fdfdfa; --ink: #1d2227; --soft: #5e646a; --note: #43484e; --line: #dbdee2; --link: #0f5c80;
  --magnitude: #043247; --positive: #287aa3; --negative: #9e6033;
  --attention: #744593; --mlp: #2c6d3e; --norm: #717171;
}
@media screen and (prefers-color-scheme: dark) {
  :root:not([data-light]) {
    --paper: #14171b; --ink: #dee2e5; --soft: #9399a0; --note: #bfc5ca; --line: #32363a; --link: #8ac7ea;
    --magnitude: #b8e5ff; --positive: #499cc9; --negative: #c38051;
    --attention: #c89bea; --mlp: #7cc58c; --norm: #9e9e9e;
  }
}
)css";

}  // namespace vitrine
