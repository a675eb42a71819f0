#include "example/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "example/arithmetic.h"

namespace vitrine {

std::vector<ExampleTable> tables_of(const ExampleSection& s) {
  const auto n = static_cast<std::int64_t>(s.values.size());
  if (n == 0) return {};
  if (s.shape.rank() == 1) return {{"", 0, 1, n}};
  if (!s.by_first) return {{"", 0, s.shape[0], n / s.shape[0]}};
  std::vector<ExampleTable> tables;
  const std::int64_t rows = s.shape[1], columns = s.shape[2];
  for (std::int64_t i = 0; i < s.shape[0]; ++i) {
    tables.push_back({"head " + std::to_string(i), i * rows * columns, rows, columns});
  }
  return tables;
}

const std::string& label_of(const std::vector<std::string>& labels, std::int64_t i) {
  static const std::string kNone;
  return static_cast<std::size_t>(i) < labels.size() ? labels[static_cast<std::size_t>(i)] : kNone;
}

std::string difference_text(const Difference& d, int digits) {
  if (!d.taken) return "";
  return d.smooth ? decimal(d.slope, digits) : "~";
}

double largest_difference(const ExampleSection& s) {
  double largest = -1;
  for (std::size_t i = 0; i < s.differences.size(); ++i) {
    const Difference& d = s.differences[i];
    if (d.taken && d.smooth) largest = std::max(largest, std::abs(static_cast<double>(s.values[i]) - d.slope));
  }
  return largest;
}

std::vector<std::string> opening_of(const WorkedExample& e) {
  std::string text;
  for (const std::int32_t id : e.ids) text += e.labels[static_cast<std::size_t>(id)] + " ";
  const std::string& target = e.labels[static_cast<std::size_t>(e.target)];
  std::vector<std::string> opening = {
      fmt::format(
          "One step of learning: after \"{}\" comes \"{}\". The loss is −ln p({}) at the last position alone. {} "
          "parameters; {}.",
          text.substr(0, text.size() - 1), target, target, e.n_params, e.optimizer),
      "Matrices have a row for each position of the text, or for each output of a product, and count from 0; \"1.0\" "
      "is "
      "head 1, its element 0. Behind a matrix stands the arithmetic of one of its cells, with rounded numbers and "
      "without the terms whose first factor is 0. grad:X is the gradient of the loss by X, new:X is X after the "
      "update.",
      "Beside the gradient of each parameter stands a finite difference: the slope of the same float32 forward, fitted "
      "to at least 128 losses around the element, good to about 1e-6 where the loss does not bend too sharply. ~ marks "
      "a kink, across which no slope holds.",
  };
  if (!e.about.empty()) opening.insert(opening.begin() + 1, e.about);
  return opening;
}

std::vector<std::string> closing_of(const WorkedExample& e) {
  const std::string& target = e.labels[static_cast<std::size_t>(e.target)];
  const DifferenceSummary& d = e.differences;
  std::vector<std::string> result = {fmt::format(
      "The update has taken the loss from {:.4f} to {:.4f} nats: p({}) from {:.4f} "
      "to {:.4f}; chance would be {:.4f}.",
      e.loss, e.loss_after, target, e.probability, e.probability_after, 1.0 / static_cast<double>(e.labels.size()))};
  if (d.taken > d.not_smooth) {
    result.push_back(
        fmt::format("{} finite differences: the largest |gradient − difference| is {:.1e}, at {}, where ±{:.0e} "
                    "was to be expected of the fit{}.",
                    d.taken, d.largest, d.where, d.expected,
                    d.not_smooth > 0 ? fmt::format("; {} stand at a kink", d.not_smooth) : ""));
  }
  return result;
}

std::int64_t width_of(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace vitrine
