#include "model/text_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/divide_by_length.h"
#include "base/error.h"
#include "base/math.h"

namespace vitrine {
namespace {

using Mode = PoolStep::Mode;

/// Rows [begin, end) of a pass.
struct RowRange {
  std::int64_t begin, end;
};

/// One mode, from rows of `d` elements, which follow from `first_row`, the first of the text.
void pool_rows(Mode mode, const Tensor& x, std::int64_t first_row, const RowRange& rows, float* y) {
  const std::int64_t d = x.row_size();
  const bool is_empty = rows.begin >= rows.end;
  if (mode == Mode::cls) return (void)std::copy_n(x.row(is_empty ? first_row : rows.begin), d, y);
  if (mode == Mode::last) {
    if (is_empty) return (void)std::fill_n(y, d, 0.0f);
    return (void)std::copy_n(x.row(rows.end - 1), d, y);
  }
  if (mode == Mode::max) {
    std::fill_n(y, d, -std::numeric_limits<float>::infinity());
    for (std::int64_t t = rows.begin; t < rows.end; ++t) {
      for (std::int64_t j = 0; j < d; ++j) y[j] = std::max(y[j], x.row(t)[j]);
    }
    return;
  }
  std::vector<double> sums(static_cast<std::size_t>(d), 0.0);
  double total = 0;
  for (std::int64_t t = rows.begin; t < rows.end; ++t) {
    const double weight = mode == Mode::weighted_mean ? static_cast<double>(t - first_row + 1) : 1;
    total += weight;
    for (std::int64_t j = 0; j < d; ++j) sums[static_cast<std::size_t>(j)] += weight * static_cast<double>(x.row(t)[j]);
  }
  total = std::max(total, 1e-9);
  if (mode == Mode::mean_sqrt_len) total = std::sqrt(total);
  for (std::int64_t j = 0; j < d; ++j) y[j] = static_cast<float>(sums[static_cast<std::size_t>(j)] / total);
}

Tensor pool(Pass& p, const PoolStep& step, const Tensor& x, const TextRows& rows) {
  p.refuse_tape("pool");
  const std::int64_t d = x.row_size(), n = std::ssize(rows.segments);
  const Tensor y = p.tensor({n, d * std::ssize(step.modes)});
  p.for_rows(n, x.count() / std::max<std::int64_t>(1, n), [&](std::int64_t i) {
    const Segment& s = rows.segments[static_cast<std::size_t>(i)];
    const TextMarks marks = rows.marks_of(static_cast<std::size_t>(i));
    const std::int64_t n_left_out = step.includes_prompt ? 0 : std::min(marks.n_prompt, s.length);
    const RowRange range{s.first_row + n_left_out, s.first_row + s.length - marks.n_padding()};
    for (std::size_t k = 0; k < step.modes.size(); ++k) {
      pool_rows(step.modes[k], x, s.first_row, range, y.row(i) + static_cast<std::int64_t>(k) * d);
    }
  });
  return y;
}

Tensor normalized(Pass& p, const Tensor& x) {
  p.refuse_tape("normalize");
  const std::int64_t d = x.row_size();
  const Tensor y = p.tensor(x.shape);
  p.for_rows(x.rows(), d, [&](std::int64_t i) {
    std::copy_n(x.row(i), d, y.row(i));
    divide_by_length({y.row(i), static_cast<std::size_t>(d)});
  });
  return y;
}

void check_width(const Param& param, const Tensor& x) {
  if (x.data != nullptr && x.row_size() == param.view.cols) return;
  throw BadCheckpoint(param.name, "expected a step before it to give vectors of {} elements, got {}", param.view.cols,
                      x.data == nullptr ? 0 : x.row_size());
}

Tensor run(Pass& p, const DenseStep& step, const Tensor& x) {
  check_width(step.map.weight, x);
  Tensor y = linear(p, step.map, x);
  if (step.is_sigmoid) {
    y = sigmoid(p, y);
  } else if (step.activation) {
    y = activate(p, *step.activation, y);
  }
  if (step.residual == DenseStep::Residual::none) return y;
  return add(p, y, step.residual == DenseStep::Residual::map ? linear(p, step.residual_map, x) : x);
}

void run(const MaskStep& step, const TextRows& rows, TextValues& values) {
  values.counts.assign(rows.ids.size(), false);
  const auto has = [](const std::vector<std::int32_t>& ids, std::int32_t id) {
    return std::binary_search(ids.begin(), ids.end(), id);
  };
  for (std::size_t i = 0; i < rows.segments.size(); ++i) {
    const Segment& s = rows.segments[i];
    const bool is_query = rows.marks_of(i).is_query;
    const bool skips = is_query ? step.skips_in_queries : step.skips_in_documents;
    for (std::int64_t t = s.first_row; t < s.first_row + s.length; ++t) {
      const std::int32_t id = rows.ids[static_cast<std::size_t>(t)];
      const bool is_kept = is_query || step.kept.empty() || has(step.kept, id);
      values.counts[static_cast<std::size_t>(t)] = is_kept && !(skips && has(step.skipped, id));
    }
  }
}

/// log(1 + x) for x ≥ 0.
double log1p(double x) { return math::log(1 + x); }

}  // namespace

void run_text_steps(Pass& p, std::span<const TextStep> steps, const TextRows& rows, TextValues& values) {
  constexpr NormConfig kLayerNorm{.kind = NormConfig::Kind::layer, .eps = 1e-5f, .bias = true};
  for (const TextStep& step : steps) {
    if (const auto* const pooled = std::get_if<PoolStep>(&step)) {
      values.vector = pool(p, *pooled, values.tokens, rows);
    } else if (const auto* const dense = std::get_if<DenseStep>(&step)) {
      values.of(dense->to) = run(p, *dense, values.of(dense->from));
    } else if (const auto* const layer_norm = std::get_if<LayerNormStep>(&step)) {
      check_width(layer_norm->norm.weight, values.vector);
      values.vector = plain_norm(p, kLayerNorm, layer_norm->norm, values.vector);
    } else if (const auto* const normalize = std::get_if<NormalizeStep>(&step)) {
      values.of(normalize->to) = normalized(p, values.of(normalize->from));
    } else if (const auto* const mask = std::get_if<MaskStep>(&step)) {
      run(*mask, rows, values);
    } else {
      throw InternalError("steps", "a step that reads logits comes after another");
    }
  }
}

SpladeWeights::SpladeWeights(const SpladeStep& step, std::int64_t vocab_size, std::span<const Segment> segments)
    : step_(step), vocab_size_(vocab_size), segments_(segments.begin(), segments.end()) {
  const auto n = static_cast<std::size_t>(vocab_size) * segments_.size();
  step.sums ? sums_.resize(n) : largest_.resize(n);
}

void SpladeWeights::add(Pass& p, std::int64_t first, const Tensor& logits) {
  p.refuse_tape("splade");
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const Segment& s = segments_[i];
    const std::int64_t begin = std::max(s.first_row, first);
    const std::int64_t end = std::min(s.first_row + s.length - s.n_padding, first + logits.rows());
    if (begin >= end) continue;
    const auto offset = static_cast<std::int64_t>(i) * vocab_size_;
    p.for_columns(vocab_size_, (end - begin) * 8, [&](std::int64_t from, std::int64_t count) {
      for (std::int64_t t = begin; t < end; ++t) {
        const float* const row = logits.row(t - first);
        for (std::int64_t j = from; j < from + count; ++j) {
          const auto at = static_cast<std::size_t>(offset + j);
          if (!step_.sums) {
            largest_[at] = std::max(largest_[at], row[j]);
          } else if (row[j] > 0) {
            const double once = log1p(static_cast<double>(row[j]));
            sums_[at] += step_.twice ? log1p(once) : once;
          }
        }
      }
    });
  }
}

Tensor SpladeWeights::finish(Pass& p) const {
  const Tensor y = p.tensor({std::ssize(segments_), vocab_size_});
  for (std::size_t i = 0; i < sums_.size(); ++i) y.data[i] = static_cast<float>(sums_[i]);
  for (std::size_t i = 0; i < largest_.size(); ++i) {
    const double once = log1p(static_cast<double>(largest_[i]));
    y.data[i] = static_cast<float>(step_.twice ? log1p(once) : once);
  }
  return y;
}

}  // namespace vitrine
