#include "inspect/control_maker.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"
#include "checkpoint/adapters/control.h"
#include "inspect/text_pass.h"

namespace vitrine {
namespace {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

/// Divides by the length. Returns it.
double normalize(Vector& v) {
  const double length = std::sqrt(dot(v, v));
  for (double& x : v) x = length > 0 ? x / length : 0;
  return length;
}

void subtract(const Vector& from, double factor, Vector& v) {
  for (std::size_t i = 0; i < v.size(); ++i) v[i] -= factor * from[i];
}

/// D · v
Vector times(std::span<const float> rows, const Vector& v) {
  Vector result;
  for (std::size_t at = 0; at < rows.size(); at += v.size()) {
    double sum = 0;
    for (std::size_t i = 0; i < v.size(); ++i) sum += static_cast<double>(rows[at + i]) * v[i];
    result.push_back(sum);
  }
  return result;
}

/// Dᵀ · u
Vector transposed_times(std::span<const float> rows, const Vector& u, std::size_t d) {
  Vector result(d);
  for (std::size_t row = 0; row < u.size(); ++row) {
    for (std::size_t i = 0; i < d; ++i) result[i] += u[row] * static_cast<double>(rows[row * d + i]);
  }
  return result;
}

/// The eigenvector of the largest eigenvalue of a symmetric tridiagonal matrix, by the diagonal and what is next to it.
Vector largest_eigenvector(const Vector& diagonal, const Vector& next) {
  const std::size_t n = diagonal.size();
  double low = diagonal[0], high = diagonal[0];
  for (std::size_t i = 0; i < n; ++i) {  // Gershgorin
    const double radius = (i > 0 ? std::abs(next[i - 1]) : 0) + (i + 1 < n ? std::abs(next[i]) : 0);
    low = std::min(low, diagonal[i] - radius);
    high = std::max(high, diagonal[i] + radius);
  }
  const auto is_above_all = [&](double x) {  // T − x is negative definite (Sylvester)
    double pivot = 1;
    for (std::size_t i = 0; i < n; ++i) {
      pivot = diagonal[i] - x - (i > 0 ? next[i - 1] * next[i - 1] / pivot : 0);
      if (pivot >= 0) return false;
    }
    return true;
  };
  for (int step = 0; step < 200 && low < high; ++step) {
    const double middle = low + (high - low) / 2;
    if (middle == low || middle == high) break;
    (is_above_all(middle) ? high : low) = middle;
  }
  Vector v(n, 1);  // inverse iteration with high − T, which is positive definite, or nearly singular
  const double least = std::numeric_limits<double>::epsilon() * std::max(std::abs(high), 1e-300);
  for (int step = 0; step < 4; ++step) {
    Vector pivots(n);
    for (std::size_t i = 0; i < n; ++i) {
      pivots[i] = high - diagonal[i] - (i > 0 ? next[i - 1] * next[i - 1] / pivots[i - 1] : 0);
      if (std::abs(pivots[i]) < least) pivots[i] = least;
      if (i > 0) v[i] += next[i - 1] / pivots[i - 1] * v[i - 1];
    }
    for (std::size_t i = n; i-- > 0;) v[i] = (v[i] + (i + 1 < n ? next[i] * v[i + 1] : 0)) / pivots[i];
    normalize(v);
  }
  return v;
}

}  // namespace

std::vector<double> first_singular_vector(std::span<const float> d_rows, std::int64_t d_columns) {
  constexpr std::size_t kMostSteps = 400, kEvery = 8;
  constexpr double kTolerance = 1e-10;
  const auto d = static_cast<std::size_t>(d_columns);
  const std::size_t n = d_rows.size() / d, most = std::min({n, d, kMostSteps});
  Vector start(d);
  for (std::size_t i = 0; i < d; ++i) start[i] = uniform(1, 0, i) - 0.5;
  start = transposed_times(d_rows, times(d_rows, start), d);  // within the space of the rows
  if (normalize(start) == 0) return start;
  std::vector<Vector> basis = {start};
  Vector diagonal, next, combination;
  while (true) {
    Vector w = transposed_times(d_rows, times(d_rows, basis.back()), d);
    diagonal.push_back(dot(w, basis.back()));
    for (int twice = 0; twice < 2; ++twice) {
      for (const Vector& v : basis) subtract(v, dot(w, v), w);
    }
    const double rest = normalize(w);
    const bool is_last = basis.size() == most || rest <= 1e-14 * std::abs(diagonal.front());
    if (is_last || basis.size() % kEvery == 0) {
      combination = largest_eigenvector(diagonal, next);
      if (is_last || rest * std::abs(combination.back()) <= kTolerance * std::abs(diagonal.front())) break;
    }
    next.push_back(rest);
    basis.push_back(std::move(w));
  }
  Vector v(d);
  for (std::size_t i = 0; i < combination.size(); ++i) subtract(basis[i], -combination[i], v);
  normalize(v);
  const Vector projections = times(d_rows, v);
  const bool is_negative = std::accumulate(projections.begin(), projections.end(), 0.0) < 0;
  if (is_negative) std::ranges::transform(v, v.begin(), std::negate<>());
  return v;
}

ControlMaker::ControlMaker(const GenerateContext& context, ControlPool pool) : context_(context), pool_(pool) {
  const ModelConfig& config = context.model->config();
  require_one_stream(config, "control");
  if (config.n_layers() < 2) throw BadInput("control", "the model has one layer, after which no direction is added");
  differences_.resize(config.n_layers() - 1);
}

ControlMaker::Pooled ControlMaker::pooled(std::span<const std::int32_t> ids) const {
  std::vector<SiteId> sites;
  for (std::size_t i = 0; i < differences_.size(); ++i) {
    sites.push_back(BlockSite{static_cast<int>(i) + 1}(Site::resid_post));
  }
  Pooled result(sites.size());
  SiteReader reader(sites, [&](Pass&, const SiteId& id, const Tensor& value) {
    Vector& sum = result[static_cast<std::size_t>(id.layer) - 1];
    const std::int64_t n = value.row_size(), first = pool_ == ControlPool::last ? value.rows() - 1 : 0;
    sum.resize(static_cast<std::size_t>(n));
    for (std::int64_t row = first; row < value.rows(); ++row) {
      for (std::int64_t i = 0; i < n; ++i) sum[static_cast<std::size_t>(i)] += static_cast<double>(value.row(row)[i]);
    }
    for (double& x : sum) x /= static_cast<double>(value.rows() - first);
  });
  GenerateContext context = context_;
  context.taps = &reader;
  Arena arena;
  Pass pass = text_pass(context, arena, {ids});
  context.model->forward(pass, {ids});
  return result;
}

void ControlMaker::add(std::span<const std::int32_t> positive, std::span<const std::int32_t> negative) {
  const Pooled a = pooled(positive), b = pooled(negative);
  for (std::size_t layer = 0; layer < a.size(); ++layer) {
    for (std::size_t i = 0; i < a[layer].size(); ++i) {
      differences_[layer].push_back(static_cast<float>(a[layer][i] - b[layer][i]));
    }
  }
  ++n_pairs_;
}

ControlVector ControlMaker::make(ControlMethod method) const {
  if (n_pairs_ == 0) throw BadInput("control", "expected at least one pair, got none");
  ControlVector control;
  for (std::size_t layer = 0; layer < differences_.size(); ++layer) {
    const std::span<const float> rows = differences_[layer];
    const std::size_t d = rows.size() / static_cast<std::size_t>(n_pairs_);
    Vector v = method == ControlMethod::pca
                   ? first_singular_vector(rows, static_cast<std::int64_t>(d))
                   : transposed_times(rows, Vector(static_cast<std::size_t>(n_pairs_), 1.0), d);
    if (normalize(v) == 0) {
      throw BadInput("control", "the texts of the pairs do not differ after block {}, so there is no direction",
                     layer + 1);
    }
    control.directions.emplace(static_cast<int>(layer) + 1, std::vector<float>(v.begin(), v.end()));
  }
  return control;
}

}  // namespace vitrine
