// Plots of runs: curves and labels, for a run in the repository and for unusual values.
#include "metrics/plot.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "base/error.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Point = std::pair<double, double>;

/// The points of every curve of an SVG class, in pixels.
std::vector<std::vector<Point>> curves_of(const std::string& svg, const std::string& classes) {
  std::vector<std::vector<Point>> curves;
  const std::string head = "<polyline class=\"" + classes + "\" points=\"";
  for (std::size_t at = svg.find(head); at != std::string::npos; at = svg.find(head, at + 1)) {
    std::istringstream points(svg.substr(at + head.size(), svg.find('"', at + head.size()) - at - head.size()));
    curves.emplace_back();
    Point point;
    for (char comma = 0; points >> point.first >> comma >> point.second;) curves.back().push_back(point);
  }
  return curves;
}

/// Expects a closing tag for every opening tag.
void expect_balanced(const std::string& svg) {
  std::vector<std::string> open;
  const std::regex tag(R"re(<(/?)(\w+)((?:"[^"]*"|[^">])*?)(/?)>)re");
  for (std::sregex_iterator it(svg.begin(), svg.end(), tag), end; it != end; ++it) {
    const std::smatch& m = *it;
    if (m[1].length() > 0) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), m[2]);
      open.pop_back();
    } else if (m[4].length() == 0) {
      open.push_back(m[2]);
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST(Plot, DrawsACommittedRun) {
  const std::vector<MetricCurves> runs = {read_metrics(source_dir() + "/tests/metrics/metrics.jsonl")};
  EXPECT_EQ(runs[0].name, "metrics");
  const std::string svg = plot_svg(runs);
  expect_balanced(svg);
  const auto whole = curves_of(svg, "curve c0"), dashed = curves_of(svg, "curve dashed c0");
  ASSERT_EQ(whole.size(), 3U) << "loss, learning rate, gradient norm";
  ASSERT_EQ(dashed.size(), 1U);
  EXPECT_EQ(whole[0].size(), runs[0].curves.at("loss").size());
  EXPECT_EQ(dashed[0].size(), runs[0].curves.at("val_loss").size());
  EXPECT_LT(whole[0].front().second, whole[0].back().second) << "a falling loss must fall in the drawing";
  // Both curves of the panel have the same scale: pixels are the same linear function of values.
  const auto& losses = runs[0].curves.at("loss");
  const auto& validation = runs[0].curves.at("val_loss");
  const double slope =
      (whole[0].back().second - whole[0].front().second) / (losses.back().second - losses.front().second);
  for (std::size_t i = 0; i < validation.size(); ++i) {
    EXPECT_NEAR(dashed[0][i].second, whole[0].front().second + slope * (validation[i].second - losses.front().second),
                0.2);
  }
  EXPECT_THAT(svg, HasSubstr(">validation<"));
  EXPECT_THAT(svg, HasSubstr(">1500<"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
}

TEST(Plot, DrawsSeveralRunsAndOmitsMetricsThatNoneHas) {
  const MetricCurves a{"a<b & \"c\"", {{"loss", {{1, 4}, {2, 3}}}}};
  const MetricCurves b{"b", {{"loss", {{1, 5}, {3, 2}}}, {"lr", {{1, 0.1}, {3, 0.2}}}}};
  const std::string svg = plot_svg(std::vector{a, b});
  expect_balanced(svg);
  EXPECT_THAT(svg, HasSubstr("a&lt;b &amp; &quot;c&quot;"));
  EXPECT_EQ(curves_of(svg, "curve c0").size(), 1U);
  EXPECT_EQ(curves_of(svg, "curve c1").size(), 2U);
  EXPECT_THAT(svg, HasSubstr("learning rate"));
  EXPECT_THAT(svg, Not(HasSubstr("gradient norm")));
  EXPECT_THAT(svg, Not(HasSubstr(">validation<")));
  const double first = curves_of(svg, "curve c0")[0][0].second, second = curves_of(svg, "curve c1")[0][0].second;
  EXPECT_GT(first, second) << "4 must be drawn below 5";
}

TEST(Plot, KeepsPeaksOfLongRuns) {
  MetricCurves run{"long", {}};
  auto& loss = run.curves["loss"];
  for (int step = 0; step < 100'000; ++step) loss.emplace_back(step, step == 54'321 ? 9.0 : 1.0 + step % 2 * 0.1);
  const std::string svg = plot_svg(std::vector{run});
  const auto curve = curves_of(svg, "curve c0").at(0);
  EXPECT_LT(curve.size(), 2000U);
  const auto peak = std::min_element(curve.begin(), curve.end(), [](auto& p, auto& q) { return p.second < q.second; });
  EXPECT_LT(peak->second + 100, curve.front().second);
  EXPECT_TRUE(std::is_sorted(curve.begin(), curve.end(), [](auto& p, auto& q) { return p.first < q.first; }));
}

TEST(Plot, DrawsUnusualValues) {
  for (const std::vector<Point>& values : {std::vector<Point>{{5, 2}},
                                           {{5, 0}},
                                           {{1, 1e300}, {2, 1}, {3, -1e308}},
                                           {{0, 7}, {1, 7}},
                                           {{1, 1e-300}, {2, 3e-300}},
                                           {{-5, -2}, {9e29, 9e29}}}) {
    const std::string svg = plot_svg(std::vector{MetricCurves{"x", {{"loss", values}}}});
    expect_balanced(svg);
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
    EXPECT_LT(svg.size(), 20'000U);
  }
  EXPECT_THROW(plot_svg({}), BadInput);
  EXPECT_THROW(plot_svg(std::vector{MetricCurves{"x", {{"tokens", {{1, 1}}}}}}), BadInput);
}

}  // namespace
}  // namespace vitrine::test
