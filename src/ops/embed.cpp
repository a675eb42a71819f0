#include "ops/embed.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "ops/describe.h"

namespace vitrine {
namespace {

constexpr std::int32_t kNoRow = -1;

/// dtable[row[t]] += scale · dx[t], t ascending.
void add_row_gradients(Pass& p, const Param& table, float scale, const Tensor& dx,
                       const std::vector<std::int32_t>& rows) {
  const Tensor dtable = p.grad(table);
  if (dtable.data == nullptr) return;
  p.for_columns(dx.row_size(), dx.rows(), [&](std::int64_t first, std::int64_t count) {
    for (std::size_t t = 0; t < rows.size(); ++t) {
      if (rows[t] == kNoRow) continue;
      p.kernels.add_scaled(dx.row(static_cast<std::int64_t>(t)) + first, count, scale, dtable.row(rows[t]) + first);
    }
  });
}

/// `[(d + 1) / 2]`, radians per position. Those of tensor2tensor are rounded to float32, as are their angles.
std::vector<double> sinusoid_frequencies(Sinusoid kind, std::int64_t d) {
  const double log_base = math::log(10000.0);
  std::vector<double> frequency;
  for (std::int64_t i = 0; i < (d + 1) / 2; ++i) {
    const auto pair = static_cast<double>(i);
    if (kind == Sinusoid::tensor2tensor) {
      const auto step = static_cast<float>(log_base / static_cast<double>(d / 2 - 1));
      frequency.push_back(
          static_cast<double>(static_cast<float>(math::exp(static_cast<double>(-step * static_cast<float>(i))))));
    } else {
      frequency.push_back(math::exp(-log_base * 2 * pair / static_cast<double>(d)));
    }
  }
  return frequency;
}

/// The position of each row of a stack, counted from `first`.
std::vector<std::int64_t> rows_of_positions(Pass& p, std::span<const std::int32_t> ids, const PositionOptions& o,
                                            Stack stack) {
  std::vector<std::int64_t> rows(ids.size());
  for (const Segment& s : p.segments_of(stack)) {
    std::int64_t next = o.first + s.position;
    for (auto t = static_cast<std::size_t>(s.first_row); t < static_cast<std::size_t>(s.first_row + s.length); ++t) {
      const bool counts = !o.uncounted_id || p.shapes_only || ids[t] != *o.uncounted_id;
      rows[t] = counts ? next++ : o.first - 1;
    }
  }
  return rows;
}

}  // namespace

Tensor embed(Pass& p, const Param& table, std::span<const std::int32_t> ids, const EmbedOptions& o) {
  const std::int64_t d = table.view.cols;
  const auto n_rows = static_cast<std::int64_t>(ids.size());
  for (std::size_t i = 0; i < ids.size() && !p.shapes_only; ++i) {
    const std::int32_t id = ids[i];
    if (id < 0 || id >= table.view.rows) {
      throw BadInput(o.name, "expected ids from 0 to {}, got {}", table.view.rows - 1, id);
    }
  }
  const Tensor x = p.tensor({n_rows, d});
  p.for_rows(n_rows, d, [&](std::int64_t t) {
    p.widen(table.view, ids[static_cast<std::size_t>(t)], d, x.row(t));
    if (o.scale != 1.0f) p.kernels.scale(x.row(t), d, o.scale, x.row(t));
  });
  std::vector<std::int32_t> rows;  // for the backward
  if (p.is_taped()) rows.assign(ids.begin(), ids.end());
  if (o.untrained_id) std::replace(rows.begin(), rows.end(), *o.untrained_id, kNoRow);
  p.record({OpKind::embed, o.scale}, {}, x, [&p, &table, scale = o.scale, x, rows = std::move(rows)] {
    add_row_gradients(p, table, scale, p.grad(x), rows);
  });
  if (p.ledger != nullptr) p.ledger->looks_up(o.name, x.count());
  return x;
}

Tensor embed_positions(Pass& p, const Param& table, std::span<const std::int32_t> ids, const PositionOptions& o,
                       Stack stack) {
  const std::int64_t d = table.view.cols;
  const std::vector<std::int64_t> at = rows_of_positions(p, ids, o, stack);
  for (const std::int64_t row : at) {
    if (row >= table.view.rows) {
      throw BadInput("embed", "expected positions from 0 to {}, got {}", table.view.rows - o.first - 1, row - o.first);
    }
  }
  const Tensor x = p.tensor({static_cast<std::int64_t>(ids.size()), d});
  p.for_rows(x.rows(), d, [&](std::int64_t t) { p.widen(table.view, at[static_cast<std::size_t>(t)], d, x.row(t)); });
  std::vector<std::int32_t> rows;  // for the backward; like PyTorch's padding_idx, the row before the first has none
  if (p.is_taped()) {
    for (const std::int64_t row : at) rows.push_back(row < o.first ? kNoRow : static_cast<std::int32_t>(row));
  }
  p.record(OpKind::embed_positions, {}, x,
           [&p, &table, x, rows = std::move(rows)] { add_row_gradients(p, table, 1.0f, p.grad(x), rows); });
  if (p.ledger != nullptr) p.ledger->looks_up("pos_embed", x.count());
  return x;
}

SinusoidRows::SinusoidRows(Sinusoid kind, std::int64_t d)
    : kind_(kind), frequency_(sinusoid_frequencies(kind, d)), d_(d) {}

void SinusoidRows::compute(std::int64_t position, float* row) const {
  const std::int64_t n_sines = (d_ + 1) / 2;
  for (std::int64_t i = 0; i < d_; ++i) {
    const bool is_sine = kind_ == Sinusoid::interleaved ? i % 2 == 0 : i < n_sines;
    const std::int64_t pair = kind_ == Sinusoid::interleaved ? i / 2 : is_sine ? i : i - n_sines;
    double angle = static_cast<double>(position) * frequency_[static_cast<std::size_t>(pair)];
    if (kind_ == Sinusoid::tensor2tensor) angle = static_cast<double>(static_cast<float>(angle));
    row[i] = static_cast<float>(is_sine ? math::sin(angle) : math::cos(angle));
  }
}

void SinusoidRows::copy(std::int64_t position, float* row) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = rows_.find(position); it != rows_.end()) {
      std::copy(it->second.begin(), it->second.end(), row);
      return;
    }
  }
  compute(position, row);
  const std::lock_guard lock(mutex_);
  if (rows_.size() < kMaxKept) rows_.try_emplace(position, row, row + d_);
}

Tensor embed_sinusoids(Pass& p, SinusoidRows& sinusoids, std::span<const std::int32_t> ids, std::int64_t d,
                       const PositionOptions& o, Stack stack) {
  const std::vector<std::int64_t> at = rows_of_positions(p, ids, o, stack);
  const Tensor x = p.tensor({static_cast<std::int64_t>(ids.size()), d});
  p.for_rows(x.rows(), 64 * d, [&](std::int64_t t) {
    const std::int64_t position = at[static_cast<std::size_t>(t)];
    if (position < o.first) {
      std::fill_n(x.row(t), d, 0.0f);
    } else {
      sinusoids.copy(position, x.row(t));
    }
  });
  p.record(OpKind::embed_sinusoids, {}, x, [] {});
  if (p.ledger != nullptr) p.ledger->name("pos_embed");
  return x;
}

namespace {

bool is_scaled(const OpView& v) { return v.settings<float>() != 1; }
OpDescription::Elements embed_elements(const OpView& v, std::int64_t i) {
  const std::int64_t d = v.output().last_size(), id = v.trace.ids[static_cast<std::size_t>(i / d)];
  return {of_param(v.op.param, id * d + i % d)};
}
Cell embed_cell(const OpView& v, std::int64_t i) {
  if (!is_scaled(v)) return std::nullopt;
  return Arithmetic(v.settings<float>()) * Arithmetic(v.weight()[embed_elements(v, i).front().first]);
}
void add_embed_terms(const OpView& v, std::int64_t flat, std::vector<Arithmetic>& terms) {
  const std::int64_t d = v.weight().shape[1];
  for (std::int64_t t = 0; t < v.trace.n_tokens(); ++t) {
    if (v.trace.ids[static_cast<std::size_t>(t)] != flat / d) continue;
    const Arithmetic dx(v.gradient()[t * d + flat % d]);
    terms.push_back(is_scaled(v) ? Arithmetic(v.settings<float>()) * dx : dx);
  }
}

}  // namespace

constexpr OpDescription embed_op{
    "src/ops/embed.cpp",
    {{is_scaled, "$y_{t} = s · E_{id(t)}", "$y_{t} = E_{id(t)}"}, embed_cell, embed_elements},
    {},
    {"Σ_{\"t with\" id(t) = v} dx_{t}", add_embed_terms}};
constexpr OpDescription embed_positions_op{"src/ops/embed.cpp", {"$y_{t} = P_{t}"}, {}, {"dx_{t}"}};

}  // namespace vitrine
