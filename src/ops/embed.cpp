#include "ops/embed.h"

#include <vector>

#include "base/error.h"

namespace vitrine {
namespace {

/// dtable[row[t]] += scale · dx[t], t ascending.
void add_row_gradients(Pass& p, const Param& table, float scale, const Tensor& dx,
                       const std::vector<std::int32_t>& rows) {
  const Tensor dtable = p.grad(table);
  if (dtable.data == nullptr) return;
  p.for_columns(dx.row_size(), dx.rows(), [&](std::int64_t first, std::int64_t count) {
    for (std::size_t t = 0; t < rows.size(); ++t) {
      p.kernels.add_scaled(dx.row(static_cast<std::int64_t>(t)) + first, count, scale, dtable.row(rows[t]) + first);
    }
  });
}

/// Charges the ledger for the rows that are looked up, not for the whole table.
void enter_lookup(Pass& p, const Tensor& x, std::string_view name) {
  if (p.ledger == nullptr) return;
  p.ledger->name(name);
  p.ledger->charge({.weights = static_cast<double>(x.count())});
}

}  // namespace

Tensor embed(Pass& p, const Param& table, float scale, std::span<const std::int32_t> ids, std::string_view name) {
  const std::int64_t d = table.view.cols;
  const auto n_rows = static_cast<std::int64_t>(ids.size());
  for (std::size_t i = 0; i < ids.size() && !p.shapes_only; ++i) {
    const std::int32_t id = ids[i];
    if (id < 0 || id >= table.view.rows) {
      throw BadInput(name, "expected ids from 0 to {}, got {}", table.view.rows - 1, id);
    }
  }
  const Tensor x = p.tensor({n_rows, d});
  p.for_rows(n_rows, d, [&](std::int64_t t) {
    p.widen(table.view.at(ids[static_cast<std::size_t>(t)], 0), table.view.dtype, d, x.row(t));
    if (scale != 1.0f) p.kernels.scale(x.row(t), d, scale, x.row(t));
  });
  std::vector<std::int32_t> rows;  // for the backward
  if (p.is_taped()) rows.assign(ids.begin(), ids.end());
  p.record("embed", {}, x,
           [&p, &table, scale, x, rows = std::move(rows)] { add_row_gradients(p, table, scale, p.grad(x), rows); });
  enter_lookup(p, x, name);
  return x;
}

Tensor embed_positions(Pass& p, const Param& table, std::int64_t first, std::int64_t n_rows) {
  const std::int64_t d = table.view.cols;
  const Tensor x = p.tensor({n_rows, d});
  for (const Segment& s : p.segments) {
    if (first + s.position + s.length > table.view.rows) {
      throw BadInput("embed", "expected positions from 0 to {}, got {}", table.view.rows - first - 1,
                     s.position + s.length - 1);
    }
    p.for_rows(s.length, d, [&](std::int64_t i) {
      p.widen(table.view.at(first + s.position + i, 0), table.view.dtype, d, x.row(s.first_row + i));
    });
  }
  std::vector<std::int32_t> rows;
  for (const Segment& s : p.segments) {
    for (std::int64_t i = 0; i < s.length && p.is_taped(); ++i)
      rows.push_back(static_cast<std::int32_t>(first + s.position + i));
  }
  p.record("embed_positions", {}, x,
           [&p, &table, x, rows = std::move(rows)] { add_row_gradients(p, table, 1.0f, p.grad(x), rows); });
  enter_lookup(p, x, "pos_embed");
  return x;
}

}  // namespace vitrine
