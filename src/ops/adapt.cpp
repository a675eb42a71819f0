#include "ops/adapt.h"

#include <algorithm>
#include <memory>

#include "ops/by_head.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

/// What one adapter does to a map, with the scale of its use.
struct Use {
  const LowRank* low;
  double scale;  // s

  float factor() const { return static_cast<float>(scale); }
};

/// Consecutive rows of a value that the same adapters change.
struct Run {
  std::int64_t first = 0, count = 0;
  std::vector<Use> uses;

  bool is_plain() const { return uses.size() == 1 && !uses.front().low->magnitudes; }
};

std::vector<Use> uses_of(AppliedAdapters adapters, std::string_view weight) {
  std::vector<Use> uses;
  for (const AppliedAdapter& applied : adapters) {
    const LowRank* const low = applied.adapter->find(weight);
    if (low != nullptr) uses.push_back({low, low->scale * applied.scale});
  }
  return uses;
}

bool same(AppliedAdapters a, AppliedAdapters b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

/// The runs of a value of `n` rows that any adapter changes.
std::vector<Run> runs_of(Pass& p, std::string_view weight, std::int64_t n) {
  const std::vector<Segment>& segments = p.segments_of(p.rows.stack);
  if (segments.empty() || n == 0) return {};
  const AppliedAdapters first = segments.front().modifiers.adapters;
  const bool all_same = std::all_of(segments.begin(), segments.end(),
                                    [&](const Segment& s) { return same(s.modifiers.adapters, first); });
  if (all_same) {
    std::vector<Use> uses = uses_of(first, weight);
    if (uses.empty()) return {};
    return {{0, n, std::move(uses)}};
  }
  const auto adapters_of = [&](std::int64_t row) {
    if (p.rows.chosen) row = (*p.rows.chosen)[static_cast<std::size_t>(row)];
    const auto after = std::upper_bound(segments.begin(), segments.end(), row,
                                        [](std::int64_t r, const Segment& s) { return r < s.first_row; });
    return std::prev(after)->modifiers.adapters;
  };
  std::vector<Run> runs;
  for (std::int64_t begin = 0, end = 0; begin < n; begin = end) {
    const AppliedAdapters adapters = adapters_of(begin);
    while (end < n && same(adapters_of(end), adapters)) ++end;
    if (std::vector<Use> uses = uses_of(adapters, weight); !uses.empty()) {
      runs.push_back({begin, end - begin, std::move(uses)});
    }
  }
  return runs;
}

/// A place for the dropout of a map without a site.
SiteId unnamed_place(std::string_view weight) {
  std::uint32_t hash = 0;
  for (const char c : weight) hash = hash * 31 + static_cast<unsigned char>(c);
  return {Site::tokens, static_cast<int>(hash & 0x7FFF)};
}

Tensor rows_of_run(Pass& p, const Run& run, const Tensor& x) {
  return run.count == x.rows() ? x : row_range(p, x, run.first, run.count);
}

/// dx[t] += Aᵀ · du[t]. A has so few rows that adding them one after another is faster than a dot product per element.
void add_rows(Pass& p, const Tensor& du, const Param& a, const Tensor& dx) {
  constexpr std::int64_t kTile = 16;
  const std::int64_t r = du.row_size(), n = dx.row_size();
  if (a.view.dtype != DType::f32 || a.view.col_stride != 1) {
    return multiply(p, view_of(du.data, du.rows(), r, r), transposed(a.view), dx.data, n, Into::add);
  }
  p.for_rows((du.rows() + kTile - 1) / kTile, 2 * kTile * r * n, [&](std::int64_t tile) {
    const std::int64_t first = tile * kTile, count = std::min(kTile, du.rows() - first);
    p.kernels.weighted_rows(du.row(first), r, count, a.view, dx.row(first), n);
  });
}

/// A · x
Tensor reduce(Pass& p, const Param& a, const Tensor& x) {
  const std::int64_t r = a.view.rows, n = x.row_size();
  const Tensor u = p.tensor({x.rows(), r});
  multiply(p, view_of(x.data, x.rows(), n, n), a.view, u.data, r);
  p.record(OpKind::linear, {x}, u, [&p, &a, x, u] {
    const Tensor dx = p.grad(x), du = p.grad(u);
    add_weight_gradient(p, x, du, a);
    add_rows(p, du, a, dx);
  });
  if (p.ledger != nullptr) p.ledger->multiplies(a, x.rows(), n);
  return u;
}

/// y[first + t] += B · u[t], in place.
void add_product(Pass& p, const Param& b, const Tensor& u, const Tensor& y, std::int64_t first) {
  const std::int64_t r = u.row_size(), n_out = y.row_size();
  multiply(p, view_of(u.data, u.rows(), r, r), b.view, y.row(first), n_out, Into::add);
  if (p.ledger != nullptr) {
    p.ledger->enter(OpKind::linear, std::span(&u, 1), y.row_range(first, u.rows()));
    p.ledger->multiplies(b, u.rows(), r);
  }
  if (!p.is_taped()) return;
  p.training.tape->watch(y, [&p, &b, u, r, n_out, first](const Tensor& dy) {
    const Tensor dz = dy.row_range(first, u.rows()), du = p.grad(u);
    add_weight_gradient(p, u, dz, b);
    multiply(p, view_of(dz.data, dz.rows(), n_out, n_out), transposed(b.view), du.data, r, Into::add);
  });
}

/// Rows [first, first + count) of a value.
MatrixView rows_at(const Tensor& value, std::int64_t first, std::int64_t count) {
  return view_of(value.row(first), count, value.row_size(), value.row_size());
}

/// Whether the adapters of many short runs, as in a round of a server, can be computed at the same time.
bool fit_together(const Pass& p, const std::vector<Run>& runs, const Tensor& x) {
  if (runs.size() < 2 || p.is_taped() || p.ledger != nullptr || p.shapes_only || p.training.adapter_dropout != 0) {
    return false;
  }
  return std::ranges::all_of(runs, [&](const Run& run) {
    const LowRank& low = *run.uses.front().low;
    const MatrixView rows = rows_at(x, run.first, run.count);
    return SmallProduct::fits(p, rows, low.a->view) && SmallProduct::fits(p, rows, low.b.view);
  });
}

/// y += B · (s · A · x) of the rows of each run, in place, each run on one thread.
void add_together(Pass& p, const std::vector<Run>& runs, const Tensor& x, const Tensor& y) {
  struct Parts {
    Tensor u;
    float factor;
    SmallProduct reduces, adds;
  };
  const ArenaScope scope(p.arena);
  std::vector<Parts> all;
  all.reserve(runs.size());
  std::int64_t operations = 1;
  for (const Run& run : runs) {
    const LowRank& low = *run.uses.front().low;
    const Tensor u = p.tensor({run.count, low.rank()});
    all.push_back({u,
                   run.uses.front().factor(),
                   {p, rows_at(x, run.first, run.count), low.a->view, u.data, low.rank(), Into::set},
                   {p, rows_at(u, 0, run.count), low.b.view, y.row(run.first), y.row_size(), Into::add}});
    operations = std::max(operations, u.count() * (x.row_size() + y.row_size()));
  }
  const std::int64_t grain = ExecutionContext::kOperationsPerThread / operations + 1;
  p.parallel_for(std::ssize(all), grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Parts& parts = all[static_cast<std::size_t>(i)];
      parts.reduces.run(p, thread);
      for (std::int64_t k = 0; k < parts.u.count(); ++k) parts.u.data[k] *= parts.factor;
      parts.adds.run(p, thread);
    }
  });
}

/// f ⊙ x, f = m / ‖W + s · B · A‖ of the rows that the elements of x belong to.
Tensor rescale(Pass& p, const Magnitudes& magnitudes, double s, const HeadRows& rows, const Tensor& x) {
  const std::int64_t n = x.row_size();
  const auto f = std::make_shared<std::vector<float>>();
  if (!p.shapes_only) *f = magnitudes.factors(p.vector(magnitudes.vector), s);
  const auto factor = [f, rows](std::int64_t i) { return (*f)[static_cast<std::size_t>(rows.row_of(i))]; };
  const Tensor result = p.tensor(x.shape);
  p.for_rows(x.rows(), n, [&](std::int64_t t) {
    for (std::int64_t i = 0; i < n; ++i) result.row(t)[i] = factor(i) * x.row(t)[i];
  });
  p.record(OpKind::rescale, {x}, result, [&p, &magnitudes, s, rows, n, factor, x, result] {
    const Tensor dx = p.grad(x), dy = p.grad(result), dm = p.grad(magnitudes.vector);
    p.for_rows(x.rows(), n, [&](std::int64_t t) {
      for (std::int64_t i = 0; i < n; ++i) dx.row(t)[i] += factor(i) * dy.row(t)[i];
    });
    if (dm.data == nullptr) return;
    const std::int64_t period = rows.step == 0 ? rows.count : n;  // elements of the same row are that far apart
    p.for_rows(period, x.rows(), [&](std::int64_t first) {
      double slope = 0;
      for (std::int64_t t = 0; t < x.rows(); ++t) {
        for (std::int64_t i = first; i < n; i += period) {
          slope += static_cast<double>(dy.row(t)[i]) * static_cast<double>(x.row(t)[i]);
        }
      }
      const std::int64_t row = rows.row_of(first);
      dm.data[row] += static_cast<float>(slope / magnitudes.norm(static_cast<std::size_t>(row), s));
    });
  });
  return result;
}

Tensor difference(Pass& p, const Tensor& a, const Tensor& b) {
  const std::int64_t n = a.row_size();
  const Tensor y = p.tensor(a.shape);
  p.for_rows(a.rows(), n, [&](std::int64_t t) {
    for (std::int64_t i = 0; i < n; ++i) y.row(t)[i] = a.row(t)[i] - b.row(t)[i];
  });
  p.record(OpKind::difference, {a, b}, y, [&p, n, a, b, y] {
    const Tensor da = p.grad(a), db = p.grad(b), dy = p.grad(y);
    p.for_rows(a.rows(), 2 * n, [&](std::int64_t t) {
      p.kernels.add(da.row(t), dy.row(t), n, da.row(t));
      p.kernels.add_scaled(dy.row(t), n, -1.0f, db.row(t));
    });
  });
  return y;
}

/// All rows of the magnitudes, in turn, if the map does not say which.
HeadRows rows_of(const AdaptedMap& map, const Magnitudes& magnitudes) {
  return map.rows.value_or(HeadRows{.step = 0, .first = 0, .count = magnitudes.vector.shape[0]});
}

/// What the adapters of a run add to its rows y.
Tensor added_to_run(Pass& p, const Run& run, const Tensor& x, const Tensor& y, const AdaptedMap& map) {
  Tensor sum, result;  // of the products alone; y after all adapters, once one has rescaled it
  for (const Use& use : run.uses) {
    const Tensor z = map.product(*use.low, use.factor(), x).reshaped(y.shape);
    if (use.low->magnitudes) {
      const Magnitudes& m = *use.low->magnitudes;
      const Tensor before = result.data != nullptr ? result : sum.data != nullptr ? add(p, y, sum) : y;
      result = rescale(p, m, use.scale, rows_of(map, m), add(p, before, z));
    } else if (result.data != nullptr) {
      result = add(p, result, z);
    } else {
      sum = sum.data != nullptr ? add(p, sum, z) : z;
    }
  }
  return result.data != nullptr ? difference(p, result, y) : sum;
}

/// The same of a map by transposed rows: an adapter's factors come before the map and all adapters before this one.
Tensor added_to_transposed(Pass& p, const Run& run, const Tensor& x, const Tensor& y, const AdaptedMap& map) {
  Tensor from = x, sum;
  bool rescales = false;
  for (auto use = run.uses.rbegin(); use != run.uses.rend(); ++use) {
    if (use->low->magnitudes) {
      const Tensor read = part_of_heads(p, from, 0, map.rows->count);
      rescales = true;
      from = rescale(p, *use->low->magnitudes, use->scale, *map.rows, read);
    }
    const Tensor z = map.product(*use->low, use->factor(), from).reshaped(y.shape);
    sum = sum.data != nullptr ? add(p, sum, z) : z;
  }
  return !rescales ? sum : difference(p, add(p, map.transposed(from), sum), y);
}

/// `[T, …]`: the parts of the runs at their rows, and zeros elsewhere.
Tensor spread(Pass& p, const std::vector<Run>& runs, const std::vector<Tensor>& parts, const Shape& shape) {
  if (parts.front().shape == shape) return parts.front();
  const Tensor all = p.filled(shape, 0.0f);
  for (std::size_t i = 0; i < runs.size(); ++i) p.copy(parts[i].data, parts[i].count(), all.row(runs[i].first));
  std::vector<std::int64_t> first;
  for (const Run& run : runs) first.push_back(run.first);
  p.record(OpKind::spread, parts, all, [&p, parts, first, all] {
    const Tensor dall = p.grad(all);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      accumulate(p, dall.row_range(first[i], parts[i].rows()), p.grad(parts[i]));
    }
  });
  return all;
}

}  // namespace

Tensor adapted(Pass& p, std::string_view weight, const Tensor& x, const Tensor& y,
               const std::optional<AddedSite>& added, const AdaptedMap& map) {
  const std::vector<Run> runs = runs_of(p, weight, x.rows());
  if (runs.empty()) return y;
  const SiteId place = added ? added->id : unnamed_place(weight);
  const auto reduced = [&](const LowRank& low, float factor, const Tensor& rows) {  // s · A · x
    const Tensor from = dropout(p, place, rows, p.training.adapter_dropout);
    return scale(p, factor, reduce(p, *low.a, from));
  };
  const bool is_tapped = added && p.wants(added->id);
  const bool in_place =
      !map.product && !is_tapped && std::all_of(runs.begin(), runs.end(), std::mem_fn(&Run::is_plain));
  if (in_place && fit_together(p, runs, x)) {
    add_together(p, runs, x, y);
    return y;
  }
  if (in_place) {
    for (const Run& run : runs) {
      const Use& use = run.uses.front();
      add_product(p, use.low->b, reduced(*use.low, use.factor(), rows_of_run(p, run, x)), y, run.first);
    }
    return y;
  }
  const AdaptedMap linear_map{[&](const LowRank& low, float factor, const Tensor& rows) {
    return product(p, low.b, reduced(low, factor, rows));
  }};
  const AdaptedMap& of = map.product ? map : linear_map;
  std::vector<Tensor> parts;
  for (const Run& run : runs) {
    const auto added_to = of.transposed ? added_to_transposed : added_to_run;
    parts.push_back(added_to(p, run, rows_of_run(p, run, x), rows_of_run(p, run, y), of));
  }
  Tensor sum = spread(p, runs, parts, y.shape);
  if (is_tapped) sum = p.tap(added->id, sum.reshaped(added->shape.value_or(y.shape))).reshaped(y.shape);
  return add(p, y, sum);
}

}  // namespace vitrine
