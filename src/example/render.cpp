#include "example/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/arithmetic.h"

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
      fmt::format("One training step: the model learns that \"{}\" is followed by \"{}\". The loss is −ln p({}) at the "
                  "last position. {} parameters; {}.",
                  text.substr(0, text.size() - 1), target, target, e.n_params, e.optimizer),
      "A matrix has a row per position of the text, or per output of a product. Indices begin at 0; the label 1.0 "
      "means element 0 of head 1. The arithmetic of one element follows each matrix, with rounded numbers and without "
      "terms whose first factor is 0. grad:X is the gradient of the loss with respect to X; new:X is X after the "
      "update.",
      "A finite difference follows each gradient of a parameter: the slope of the loss, fitted to at least 128 losses "
      "around the element, computed by the same float32 forward. It is accurate to about 1e-6 unless the loss curves "
      "sharply. ~ marks a kink of the loss, where no slope exists.",
  };
  if (!e.about.empty()) opening.insert(opening.begin() + 1, e.about);
  return opening;
}

std::vector<std::string> closing_of(const WorkedExample& e) {
  const std::string& target = e.labels[static_cast<std::size_t>(e.target)];
  const DifferenceSummary& d = e.differences;
  std::vector<std::string> result = {fmt::format(
      "The update changed the loss from {:.4f} to {:.4f} nats, and p({}) from {:.4f} to {:.4f}; a uniform guess has "
      "{:.4f}.",
      e.loss, e.loss_after, target, e.probability, e.probability_after, 1.0 / static_cast<double>(e.labels.size()))};
  if (d.taken > d.not_smooth) {
    result.push_back(
        fmt::format("{} finite differences: the largest |gradient − difference| is {:.1e}, at {}, where the error of "
                    "the fit is {:.0e}{}.",
                    d.taken, d.largest, d.where, d.expected,
                    d.not_smooth > 0 ? fmt::format("; {} are at a kink", d.not_smooth) : ""));
  }
  return result;
}

std::int64_t width_of(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace vitrine
