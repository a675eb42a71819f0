#include "circuit/feature_choice.h"

#include <algorithm>
#include <cmath>

namespace vitrine {
namespace {

constexpr double kLeastSize = 1e-8;

std::int64_t layer_of(const CircuitValues& values, std::int64_t node) {
  return node < values.layout.n_features() ? values.features[static_cast<std::size_t>(node)].layer : values.n_layers();
}

/// Adds the influence of a target on the features of its row.
void add_influence(const NodeLayout& layout, const RowShape& shape, std::span<const float> row, double factor,
                   std::vector<double>& influence) {
  for (const RowShape::Range& range : shape.ranges()) {
    if (range.column >= layout.n_features()) return;
    for (std::int64_t i = 0; i < range.count; ++i) {
      const auto effect = static_cast<double>(std::abs(row[static_cast<std::size_t>(range.offset + i)]));
      influence[static_cast<std::size_t>(range.column + i)] += factor * effect;
    }
  }
}

}  // namespace

std::vector<std::int64_t> strongest_features(const CircuitValues& values, const RowFile& file,
                                             std::span<const StoredRow> rows, std::int64_t n) {
  const NodeLayout& layout = values.layout;
  std::vector<const StoredRow*> order;
  for (const StoredRow& row : rows) order.push_back(&row);
  std::ranges::sort(order, [&](const StoredRow* a, const StoredRow* b) {
    const std::int64_t of_a = layer_of(values, a->row.node), of_b = layer_of(values, b->row.node);
    return of_a != of_b ? of_a > of_b : a->row.node < b->row.node;
  });
  std::vector<double> influence(static_cast<std::size_t>(layout.n_features()));
  std::vector<bool> has_row(influence.size());
  std::vector<float> memory;
  for (const StoredRow* const stored : order) {
    const std::int64_t node = stored->row.node;
    const bool is_feature = node < layout.n_features();
    if (is_feature) has_row[static_cast<std::size_t>(node)] = true;
    const double weight =
        is_feature ? influence[static_cast<std::size_t>(node)]
                   : static_cast<double>(values.logits[static_cast<std::size_t>(node - layout.logit(0))].probability);
    if (weight == 0) continue;
    file.read(stored->number, memory);
    const std::int64_t t =
        is_feature ? values.features[static_cast<std::size_t>(node)].position : layout.n_tokens() - 1;
    add_influence(layout, RowShape(layout, layer_of(values, node), t), memory,
                  weight / std::max(stored->size, kLeastSize), influence);
  }
  std::vector<std::int64_t> rest;
  for (std::int64_t i = 0; i < layout.n_features(); ++i) {
    if (!has_row[static_cast<std::size_t>(i)]) rest.push_back(i);
  }
  const auto count = static_cast<std::ptrdiff_t>(std::min(n, std::ssize(rest)));
  std::ranges::partial_sort(rest, rest.begin() + count, [&](std::int64_t a, std::int64_t b) {
    const double of_a = influence[static_cast<std::size_t>(a)], of_b = influence[static_cast<std::size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  rest.resize(static_cast<std::size_t>(count));
  return rest;
}

}  // namespace vitrine
