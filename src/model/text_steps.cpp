#include "model/text_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/divide_by_length.h"
#include "base/error.h"
#include "base/math.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

using Mode = PoolStep::Mode;

/// The rows [begin, end) of a text that count. It begins at `first`.
struct CountedRows {
  std::int64_t first, begin, end;

  bool is_empty() const { return begin >= end; }
};

/// The row that is the vector; −1: there is none. For other modes nullopt.
std::optional<std::int64_t> row_of(Mode mode, const CountedRows& rows) {
  if (mode == Mode::cls) return rows.is_empty() ? rows.first : rows.begin;
  if (mode == Mode::last) return rows.is_empty() ? -1 : rows.end - 1;
  return {};
}

/// What row number `t` of a text counts in a sum.
double weight_of(Mode mode, std::int64_t t) { return mode == Mode::weighted_mean ? static_cast<double>(t + 1) : 1; }

/// What a sum of rows with these weights is divided by.
double divisor_of(Mode mode, double total) {
  total = std::max(total, 1e-9);
  return mode == Mode::mean_sqrt_len ? std::sqrt(total) : total;
}

/// One mode.
void pool_rows(Mode mode, const Tensor& x, const CountedRows& rows, std::span<float> y) {
  RowPooler pooler(mode);
  for (std::int64_t t = rows.first; t < std::max(rows.end, rows.first + 1); ++t) {
    pooler.add({x.row(t), y.size()}, t >= rows.begin && t < rows.end);
  }
  pooler.finish(y);
}

/// dx[t] += dy · weight / divisor; of a maximum, the first of equal rows receives dy.
void pool_rows_backward(Mode mode, const Tensor& x, const CountedRows& rows, const float* dy, const Tensor& dx) {
  const std::int64_t d = x.row_size();
  if (const auto row = row_of(mode, rows)) {
    for (std::int64_t j = 0; j < d && *row >= 0; ++j) dx.row(*row)[j] += dy[j];
    return;
  }
  if (mode == Mode::max) {
    for (std::int64_t j = 0; j < d && !rows.is_empty(); ++j) {
      std::int64_t best = rows.begin;
      for (std::int64_t t = best + 1; t < rows.end; ++t) best = x.row(t)[j] > x.row(best)[j] ? t : best;
      dx.row(best)[j] += dy[j];
    }
    return;
  }
  double total = 0;
  for (std::int64_t t = rows.begin; t < rows.end; ++t) total += weight_of(mode, t - rows.first);
  const double divisor = divisor_of(mode, total);
  for (std::int64_t t = rows.begin; t < rows.end; ++t) {
    const double share = weight_of(mode, t - rows.first) / divisor;
    for (std::int64_t j = 0; j < d; ++j) dx.row(t)[j] += static_cast<float>(share * static_cast<double>(dy[j]));
  }
}

Tensor pool(Pass& p, const PoolStep& step, const Tensor& x, const TextRows& rows) {
  const std::int64_t d = x.row_size(), n = std::ssize(rows.segments);
  std::vector<CountedRows> texts;
  for (std::size_t i = 0; i < rows.segments.size(); ++i) {
    const Segment& s = rows.segments[i];
    const TextMarks marks = rows.marks_of(i);
    const std::int64_t n_left_out = step.includes_prompt ? 0 : std::min(marks.n_prompt, s.length);
    texts.push_back({s.first_row, s.first_row + n_left_out, s.first_row + s.length - marks.n_padding()});
  }
  const Tensor y = p.tensor({n, d * std::ssize(step.modes)});
  const std::int64_t operations = x.count() / std::max<std::int64_t>(1, n);
  p.for_rows(n, operations, [&](std::int64_t i) {
    for (std::size_t k = 0; k < step.modes.size(); ++k) {
      pool_rows(step.modes[k], x, texts[static_cast<std::size_t>(i)],
                {y.row(i) + static_cast<std::int64_t>(k) * d, static_cast<std::size_t>(d)});
    }
  });
  p.record(OpKind::pool_texts, {x}, y, [&p, x, y, texts, modes = step.modes, n, d, operations] {
    const Tensor dx = p.grad(x), dy = p.grad(y);
    p.for_rows(n, operations, [&](std::int64_t i) {
      for (std::size_t k = 0; k < modes.size(); ++k) {
        const float* const own = dy.row(i) + static_cast<std::int64_t>(k) * d;
        pool_rows_backward(modes[k], x, texts[static_cast<std::size_t>(i)], own, dx);
      }
    });
  });
  return y;
}

/// y = x / |x|; dx += (dy − y · (y dy)) / |x|, where a length that is not the vector's own, as of 0, is a constant.
Tensor normalized(Pass& p, const Tensor& x) {
  const std::int64_t d = x.row_size();
  const Tensor y = p.tensor(x.shape);
  p.for_rows(x.rows(), d, [&](std::int64_t i) {
    std::copy_n(x.row(i), d, y.row(i));
    divide_by_length({y.row(i), static_cast<std::size_t>(d)});
  });
  p.record(OpKind::divide_by_length, {x}, y, [&p, x, y, d] {
    constexpr double kShortest = 1e-12;
    const Tensor dx = p.grad(x), dy = p.grad(y);
    p.for_rows(x.rows(), d, [&](std::int64_t i) {
      double squares = 0, along = 0;
      for (std::int64_t j = 0; j < d; ++j) {
        squares += static_cast<double>(x.row(i)[j]) * static_cast<double>(x.row(i)[j]);
        along += static_cast<double>(y.row(i)[j]) * static_cast<double>(dy.row(i)[j]);
      }
      const double length = std::max(std::sqrt(squares), kShortest);
      if (length == kShortest) along = 0;
      for (std::int64_t j = 0; j < d; ++j) {
        const double slope = static_cast<double>(dy.row(i)[j]) - along * static_cast<double>(y.row(i)[j]);
        dx.row(i)[j] += static_cast<float>(slope / length);
      }
    });
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

void RowPooler::add(std::span<const float> row, bool counts) {
  const std::int64_t t = n_++;
  if (t == 0) {
    row_.assign(row.size(), mode_ == Mode::max ? -std::numeric_limits<float>::infinity() : 0.0f);
    if (mode_ == Mode::cls) row_.assign(row.begin(), row.end());
    sums_.resize(row.size());
  }
  if (!counts) return;
  ++n_counted_;
  switch (mode_) {
    case Mode::cls:
      if (n_counted_ == 1) row_.assign(row.begin(), row.end());
      return;
    case Mode::last:
      row_.assign(row.begin(), row.end());
      return;
    case Mode::max:
      for (std::size_t j = 0; j < row.size(); ++j) row_[j] = std::max(row_[j], row[j]);
      return;
    default:
      break;
  }
  const double weight = weight_of(mode_, t);
  total_ += weight;
  for (std::size_t j = 0; j < row.size(); ++j) sums_[j] += weight * static_cast<double>(row[j]);
}

void RowPooler::finish(std::span<float> vector) const {
  const bool is_sum = mode_ != Mode::cls && mode_ != Mode::last && mode_ != Mode::max;
  if (!is_sum) return (void)std::copy(row_.begin(), row_.end(), vector.begin());
  const double divisor = divisor_of(mode_, total_);
  for (std::size_t j = 0; j < vector.size(); ++j) vector[j] = static_cast<float>(sums_[j] / divisor);
}

std::optional<PoolStep::Mode> only_mode(const TextSteps& steps) {
  const bool is_vector = steps.source == TextSteps::Source::rows && steps.result == TextValue::vector;
  if (!is_vector || steps.steps.empty() || steps.steps.size() > 2) return {};
  const auto* const pool = std::get_if<PoolStep>(&steps.steps.front());
  const auto* const normalize = std::get_if<NormalizeStep>(&steps.steps.back());
  const bool is_only = pool != nullptr && pool->modes.size() == 1 && pool->includes_prompt;
  const bool ends = steps.steps.size() == 1 || (normalize != nullptr && normalize->to == steps.result);
  return is_only && ends ? std::optional(pool->modes.front()) : std::nullopt;
}

std::int64_t vector_width(const TextSteps& steps, std::int64_t d_model, std::int64_t n_words) {
  std::int64_t tokens = d_model, vector = steps.source == TextSteps::Source::word_logits ? n_words : d_model;
  for (const TextStep& step : steps.steps) {
    if (const auto* const pool = std::get_if<PoolStep>(&step)) vector = tokens * std::ssize(pool->modes);
    if (const auto* const dense = std::get_if<DenseStep>(&step)) {
      if (dense->to == TextValue::tokens) tokens = dense->map.weight.view.rows;
      if (dense->to == TextValue::vector) vector = dense->map.weight.view.rows;
    }
  }
  return steps.result == TextValue::tokens ? tokens : vector;
}

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
