#include "metrics/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

#include "base/error.h"
#include "base/markup.h"
#include "base/math.h"
#include "base/theme.h"

namespace vitrine {
namespace {

using Point = std::pair<double, double>;

constexpr double kWidth = 960, kMargin = 24, kLeft = 64, kBelow = 40, kAbove = 28;
constexpr double kTallPanel = 400, kLowPanel = 220, kLegendLine = 22;
constexpr std::size_t kColors = 8;
constexpr double kLargest = 1e30;  // larger values are not drawn

// Colors after Okabe & Ito, which people with any color vision can distinguish; a dark background uses brighter ones.
constexpr std::string_view kStyle =
    R"(  .ground { fill: var(--paper) } .text { fill: var(--ink); font: 13px sans-serif } .title { font-weight: bold }
  .axis { stroke: var(--soft); fill: none } .grid { stroke: var(--line) }
  .curve { fill: none; stroke-width: 1.5; stroke-linejoin: round } .dashed { stroke-dasharray: 5 3 }
  .c0 { color: #0072b2 } .c1 { color: #d55e00 } .c2 { color: #009e73 } .c3 { color: #cc79a7 }
  .c4 { color: #b58900 } .c5 { color: #56b4e9 } .c6 { color: #000000 } .c7 { color: #7f7f7f }
  .curve { stroke: currentColor } .dot { fill: currentColor }
  @media (prefers-color-scheme: dark) {
    .c0 { color: #4aa8e0 } .c1 { color: #ff8a3d } .c2 { color: #2fd0a0 } .c4 { color: #f0c040 } .c6 { color: #ffffff }
  }
</style>
)";

/// A panel draws a metric, and perhaps a second one, dashed.
struct Panel {
  const char* title;
  const char* metric;
  const char* dashed;  // null: none
};
constexpr Panel kPanels[] = {{"loss (nats per token)", "loss", "val_loss"},
                             {"learning rate", "lr", nullptr},
                             {"gradient norm", "grad_norm", nullptr}};

/// A range of values, and the pixel coordinates of its ends.
struct Axis {
  double low = 0, high = 0, first = 0, last = 0;

  double at(double value) const { return first + (value - low) / (high - low) * (last - first); }
};

/// The distance between ticks: 1, 2 or 5 times a power of ten; it fits in the range at most `count` times.
double tick_step(double range, double count) {
  const double power = math::pow(10.0, std::floor(math::log(range / count) / std::numbers::ln10));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (range / (power * factor) <= count) return power * factor;
  }
  return 10 * power;
}

std::vector<double> ticks(const Axis& axis, double count) {
  const double step = tick_step(axis.high - axis.low, count);
  std::vector<double> values;
  for (double k = std::ceil(axis.low / step); k * step <= axis.high + step * 1e-9; ++k) values.push_back(k * step);
  return values;
}

std::string tick_label(double value) {
  if (std::abs(value) < 1e-12) return "0";
  if (std::abs(value) >= 1e4 && std::abs(value) < 1e9 && std::fmod(value, 1000.0) == 0) {
    return fmt::format("{:g}k", value / 1000);
  }
  return fmt::format("{:.6g}", value);
}

std::vector<Point> values_of(const MetricCurves& run, const char* metric) {
  std::vector<Point> points;
  const auto it = metric == nullptr ? run.curves.end() : run.curves.find(metric);
  if (it == run.curves.end()) return points;
  std::copy_if(it->second.begin(), it->second.end(), std::back_inserter(points),
               [](const Point& p) { return std::abs(p.first) < kLargest && std::abs(p.second) < kLargest; });
  return points;
}

/// The points with the lowest and the highest value of each pixel column, in their original order.
std::vector<Point> thinned(const std::vector<Point>& pixels) {
  std::vector<Point> kept;
  for (auto begin = pixels.begin(); begin != pixels.end();) {
    const auto end = std::find_if(begin, pixels.end(),
                                  [&](const Point& p) { return std::floor(p.first) != std::floor(begin->first); });
    const auto [low, high] =
        std::minmax_element(begin, end, [](const Point& a, const Point& b) { return a.second < b.second; });
    kept.push_back(*std::min(low, high));
    if (low != high) kept.push_back(*std::max(low, high));
    begin = end;
  }
  return kept;
}

class Drawing {
 public:
  explicit Drawing(std::span<const MetricCurves> runs) : runs_(runs) {}

  void legend(double y) {
    double x = kMargin;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const std::string name = markup_escaped(runs_[i].name);
      const double width = 40 + 8 * static_cast<double>(runs_[i].name.size());
      if (x > kMargin && x + width > kWidth - kMargin) {
        x = kMargin;
        y += kLegendLine;
      }
      add("<line class=\"curve c{}\" x1=\"{:.0f}\" y1=\"{:.0f}\" x2=\"{:.0f}\" y2=\"{:.0f}\"/>\n", i % kColors, x,
          y - 4, x + 20, y - 4);
      add("<text class=\"text\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", x + 26, y, name);
      x += width;
    }
  }

  /// The panel in the rectangle whose upper left corner is (left, top).
  void panel(const Panel& panel, double left, double top, double width, double height) {
    Axis x{0, 1, left + kLeft, left + width - 8}, y{0, 1, top + height - kBelow, top + kAbove};
    fit(panel, x, y);
    add("<text class=\"text title\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", x.first, top + 16, panel.title);
    axes(x, y);
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      curve(values_of(runs_[i], panel.metric), x, y, i % kColors, false);
      curve(values_of(runs_[i], panel.dashed), x, y, i % kColors, true);
    }
    if (panel.dashed != nullptr) key_of_dashes(x.last, top + 16);
  }

  bool has(const Panel& panel) const {
    return std::any_of(runs_.begin(), runs_.end(), [&](const MetricCurves& run) {
      return !values_of(run, panel.metric).empty() || !values_of(run, panel.dashed).empty();
    });
  }

  const std::string& text() const { return text_; }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  void fit(const Panel& panel, Axis& x, Axis& y) const {
    x.low = y.low = kLargest;
    x.high = y.high = -kLargest;
    for (const MetricCurves& run : runs_) {
      for (const char* metric : {panel.metric, panel.dashed}) {
        for (const Point& p : values_of(run, metric)) {
          x.low = std::min(x.low, p.first);
          x.high = std::max(x.high, p.first);
          y.low = std::min(y.low, p.second);
          y.high = std::max(y.high, p.second);
        }
      }
    }
    for (Axis* axis : {&x, &y}) {
      const double size = std::max(std::abs(axis->low), std::abs(axis->high));
      if (axis->high - axis->low <= size * 1e-9) {  // a single value is drawn in the middle
        axis->low -= size > 0 ? size / 2 : 1;
        axis->high += size > 0 ? size / 2 : 1;
      }
    }
    const double margin = (y.high - y.low) * 0.04;
    y.low -= margin;
    y.high += margin;
  }

  void axes(const Axis& x, const Axis& y) {
    for (const double value : ticks(y, 6)) {
      const double at = y.at(value);
      add("<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", x.first, at, x.last, at);
      add("<text class=\"text\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x.first - 6, at + 4,
          tick_label(value));
    }
    for (const double value : ticks(x, (x.last - x.first) / 90)) {
      const double at = x.at(value);
      add("<line class=\"axis\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", at, y.first, at,
          y.first + 4);
      add("<text class=\"text\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", at, y.first + 18,
          tick_label(value));
    }
    add("<path class=\"axis\" d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\"/>\n", x.first, y.last, y.first, x.last);
    add("<text class=\"text\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">step</text>\n", x.last, y.first + 34);
  }

  void curve(const std::vector<Point>& values, const Axis& x, const Axis& y, std::size_t color, bool dashed) {
    if (values.empty()) return;
    std::vector<Point> pixels;
    for (const Point& p : values) pixels.emplace_back(x.at(p.first), y.at(p.second));
    if (!dashed) pixels = thinned(pixels);
    add("<polyline class=\"curve{} c{}\" points=\"", dashed ? " dashed" : "", color);
    for (const Point& p : pixels) add("{:.1f},{:.1f} ", p.first, p.second);
    add("\"/>\n");
    const bool dots = dashed ? pixels.size() <= 100 : pixels.size() == 1;
    for (const Point& p : pixels) {
      if (dots) add("<circle class=\"dot c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>\n", color, p.first, p.second);
    }
  }

  void key_of_dashes(double right, double y) {
    const bool any = std::any_of(runs_.begin(), runs_.end(),
                                 [](const MetricCurves& run) { return run.curves.contains("val_loss"); });
    if (!any) return;
    add("<line class=\"axis dashed\" x1=\"{:.0f}\" y1=\"{:.0f}\" x2=\"{:.0f}\" y2=\"{:.0f}\"/>\n", right - 96, y - 4,
        right - 70, y - 4);
    add("<text class=\"text\" text-anchor=\"end\" x=\"{:.0f}\" y=\"{:.0f}\">validation</text>\n", right, y);
  }

  std::span<const MetricCurves> runs_;
  std::string text_;
};

}  // namespace

std::string plot_svg(std::span<const MetricCurves> runs) {
  Drawing drawing(runs);
  std::vector<Panel> below;
  for (const Panel& panel : {kPanels[1], kPanels[2]}) {
    if (drawing.has(panel)) below.push_back(panel);
  }
  const bool has_loss = drawing.has(kPanels[0]);
  if (!has_loss && below.empty()) {
    throw BadInput("plot", "expected loss, val_loss, lr or grad_norm in the metrics, found none of them");
  }
  double letters = 0;
  for (const MetricCurves& run : runs) letters += 40 + 8 * static_cast<double>(run.name.size());
  const double legend_lines = std::ceil(letters / (kWidth - 2 * kMargin) * 1.3);
  drawing.legend(kMargin);
  double top = kMargin + kLegendLine * legend_lines;
  if (has_loss) {
    drawing.panel(kPanels[0], kMargin, top, kWidth - 2 * kMargin, kTallPanel);
    top += kTallPanel;
  }
  const double width = (kWidth - 2 * kMargin) / std::max(1.0, static_cast<double>(below.size()));
  for (std::size_t i = 0; i < below.size(); ++i) {
    drawing.panel(below[i], kMargin + width * static_cast<double>(i), top, width, kLowPanel);
  }
  if (!below.empty()) top += kLowPanel;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\">\n"
      "{2}<rect class=\"ground\" width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n{3}</svg>\n",
      kWidth, top + kMargin / 2, "<style>\n" + std::string(kThemeStyle) + std::string(kStyle), drawing.text());
}

}  // namespace vitrine
