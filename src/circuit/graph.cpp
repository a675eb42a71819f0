#include "circuit/graph.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "circuit/feature_choice.h"
#include "circuit/linear_rows.h"
#include "circuit/row_file.h"

namespace vitrine {
namespace {

/// Circuit-tracer's update_interval.
constexpr std::int64_t kBatchesPerChoice = 4;

/// Computes rows into a file.
class RowMaker {
 public:
  RowMaker(const CircuitValues& values, const GraphOptions& options, RowFile& file, const GraphProgress& progress)
      : values_(values), options_(options), file_(file), progress_(progress) {
    n_features_ = std::min(options.max_feature_nodes, values.layout.n_features());
  }

  void run(LinearRows& rows) {
    const NodeLayout& layout = values_.layout;
    for (std::int64_t i = 0; i < layout.n_logits(); ++i) add(rows, layout.logit(i));
    std::int64_t n_done = 0;
    while (n_done < n_features_) {
      for (const std::int64_t node : next(n_done)) {
        add(rows, node);
        ++n_done;
      }
    }
  }
  std::vector<StoredRow>& rows() { return rows_; }

 private:
  /// The features whose rows come next.
  std::vector<std::int64_t> next(std::int64_t n_done) const {
    if (n_features_ < values_.layout.n_features()) {
      const std::int64_t n = std::min(kBatchesPerChoice * options_.batch_size, n_features_ - n_done);
      return strongest_features(values_, file_, rows_, n);
    }
    std::vector<std::int64_t> all(static_cast<std::size_t>(n_features_));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  void add(LinearRows& rows, std::int64_t node) {
    memory_.resize(static_cast<std::size_t>(rows.shape_of(node).size()));
    const GraphRow row = rows.compute(node, memory_);
    double size = 0;
    for (const float effect : memory_) size += static_cast<double>(std::abs(effect));
    rows_.push_back({row, file_.add(memory_), size});
    if (progress_) progress_(std::ssize(rows_), n_features_ + values_.layout.n_logits());
  }

  const CircuitValues& values_;
  const GraphOptions& options_;
  RowFile& file_;
  const GraphProgress& progress_;
  std::int64_t n_features_ = 0;
  std::vector<StoredRow> rows_;
  std::vector<float> memory_;
};

/// Moves the rows from the file to the graph, without the features that are not selected.
class RowCollector {
 public:
  RowCollector(AttributionGraph& graph, const RowFile& file) : graph_(graph), file_(file) {
    const NodeLayout& layout = graph.values.layout;
    number_.assign(static_cast<std::size_t>(layout.n_features()), -1);
    for (std::size_t i = 0; i < graph.selected.size(); ++i) {
      number_[static_cast<std::size_t>(graph.selected[i])] = static_cast<std::int32_t>(i);
    }
  }

  /// `rows`: ascending by node.
  void run(std::span<const StoredRow> rows) {
    const std::int64_t n = graph_.n_nodes();
    graph_.bias.assign(static_cast<std::size_t>(n), 0.0f);
    graph_.value.assign(static_cast<std::size_t>(n), 0.0f);
    graph_.indptr.assign(1, 0);
    reserve(rows);
    for (const StoredRow& row : rows) {
      const std::int64_t number = number_of(row.row.node);
      graph_.indptr.resize(static_cast<std::size_t>(number) + 1, std::ssize(graph_.indices));
      graph_.bias[static_cast<std::size_t>(number)] = static_cast<float>(row.row.bias);
      graph_.value[static_cast<std::size_t>(number)] = static_cast<float>(row.row.value);
      add(row);
      graph_.indptr.push_back(std::ssize(graph_.indices));
    }
  }

 private:
  RowShape shape_of(std::int64_t node) const {
    const CircuitValues& values = graph_.values;
    if (node >= values.layout.n_features()) return {values.layout, values.n_layers(), values.layout.n_tokens() - 1};
    const FeatureNode& feature = values.features[static_cast<std::size_t>(node)];
    return {values.layout, feature.layer, feature.position};
  }
  /// Takes memory for all edges at once.
  void reserve(std::span<const StoredRow> rows) {
    const std::int64_t n_features = graph_.values.layout.n_features();
    const auto selected_before = [&](std::int64_t node) {
      return std::ranges::lower_bound(graph_.selected, node) - graph_.selected.begin();
    };
    std::int64_t n = 0;
    for (const StoredRow& row : rows) {
      const RowShape shape = shape_of(row.row.node);
      for (const RowShape::Range& range : shape.ranges()) {
        const std::int64_t end = range.column + range.count;
        n += range.column < n_features ? selected_before(end) - selected_before(range.column) : range.count;
      }
    }
    graph_.indices.reserve(static_cast<std::size_t>(n));
    graph_.effects.reserve(static_cast<std::size_t>(n));
  }
  /// −1 for a feature that is not selected.
  std::int64_t number_of(std::int64_t node) const {
    const std::int64_t n_features = graph_.values.layout.n_features();
    return node < n_features ? number_[static_cast<std::size_t>(node)] : node - n_features + graph_.n_selected();
  }
  void add(const StoredRow& stored) {
    const RowShape shape = shape_of(stored.row.node);
    file_.read(stored.number, memory_);
    for (const RowShape::Range& range : shape.ranges()) {
      for (std::int64_t i = 0; i < range.count; ++i) {
        const float effect = memory_[static_cast<std::size_t>(range.offset + i)];
        const std::int64_t number = number_of(range.column + i);
        if (effect == 0 || number < 0) continue;
        graph_.indices.push_back(static_cast<std::int32_t>(number));
        graph_.effects.push_back(effect);
      }
    }
  }

  AttributionGraph& graph_;
  const RowFile& file_;
  std::vector<std::int32_t> number_;  // of each active feature
  std::vector<float> memory_;
};

}  // namespace

AttributionGraph make_graph(const GenerateContext& context, std::span<const std::int32_t> ids, CircuitValues values,
                            const GraphOptions& options, const std::string& path, const GraphProgress& progress) {
  AttributionGraph graph;
  RowFile file(path);
  RowMaker maker(values, options, file, progress);
  with_linear_rows(context, ids, values, [&](LinearRows& rows) { maker.run(rows); });
  std::vector<StoredRow>& rows = maker.rows();
  std::ranges::sort(rows, {}, [](const StoredRow& row) { return row.row.node; });
  for (const StoredRow& row : rows) {
    if (row.row.node < values.layout.n_features()) graph.selected.push_back(row.row.node);
  }
  graph.values = std::move(values);
  RowCollector(graph, file).run(rows);
  return graph;
}

}  // namespace vitrine
