#include "train/probe/logistic_regression.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "train/logistic.h"

namespace vitrine {
namespace {

constexpr int kMostSteps = 200, kMostHalvings = 40;
constexpr double kTolerance = 1e-9;  // of the gradient's norm, relative to 1 + ‖W‖

using Values = std::vector<double>;

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

/// Σ x[i] · w[i], summed in eight lanes.
double dot(const float* x, const double* w, std::int64_t n) {
  constexpr int kLanes = 8;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += static_cast<double>(x[i + lane]) * w[i + lane];
  }
  double rest = 0;
  for (; i < n; ++i) rest += static_cast<double>(x[i]) * w[i];
  for (const double lane : lanes) rest += lane;
  return rest;
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
double norm(const Values& a) { return std::sqrt(dot(a, a)); }

/// y += factor · x
void add_scaled(double factor, const Values& x, Values& y) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] += factor * x[i];
}

/// The objective over variables θ = [W, b], `[k, d + 1]` with b in the last column, of rows less their mean.
class PenalizedLoss {
 public:
  PenalizedLoss(const ClassifiedRows& rows, double c, ThreadPool& pool, const std::function<void()>& poll)
      : rows_(rows), c_(c), pool_(pool), poll_(poll), n_(rows.n()), d_(rows.d), k_(rows.k()), mean_(as_size(d_)) {
    add_rows(Values(as_size(n_), 1.0 / static_cast<double>(n_)), 1, mean_);
  }

  std::size_t size() const { return as_size(k_ * (d_ + 1)); }
  const Values& mean() const { return mean_; }

  /// The value at θ. Keeps the probabilities `[n, k]` there for the functions below.
  double value(const Values& theta) {
    logits(theta, p_);
    double loss = 0, squares = 0;
    for (std::int64_t i = 0; i < n_; ++i) loss += to_probabilities(p_.data() + i * k_, class_of(i));
    for_weights([&](std::size_t j, std::int64_t) { squares += theta[j] * theta[j]; });
    return 0.5 * squares + c_ * loss;
  }

  Values gradient(const Values& theta) const {
    Values residual = p_;
    for (std::int64_t i = 0; i < n_; ++i) {
      if (k_ == 1) residual[as_size(i)] -= class_of(i);
      if (k_ > 1) residual[as_size(i * k_ + class_of(i))] -= 1;
    }
    return with_penalty(theta, residual);
  }

  /// The Hessian times `direction`.
  Values curvature(const Values& direction) const {
    poll_();
    Values z;
    logits(direction, z);
    for (std::int64_t i = 0; i < n_; ++i) {
      const double* const p = p_.data() + i * k_;
      double* const own = z.data() + i * k_;
      double mean = 0;
      for (std::int64_t l = 0; l < k_; ++l) mean += p[l] * own[l];
      for (std::int64_t l = 0; l < k_; ++l) own[l] = p[l] * (own[l] - mean);
    }
    return with_penalty(direction, z);
  }

  /// The diagonal of the Hessian; 1 in place of 0.
  Values diagonal() const {
    Values result(size());
    pool_.parallel_for(d_ + 1, 16, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = 0; i < n_; ++i) {
        for (std::int64_t l = 0; l < k_; ++l) {
          const double p = p_[as_size(i * k_ + l)], factor = c_ * p * (1 - p);
          for (std::int64_t j = begin; j < end; ++j) {
            const double x = j == d_ ? 1.0 : at(i, j) - mean_[as_size(j)];
            result[as_size(l * (d_ + 1) + j)] += factor * x * x;
          }
        }
      }
    });
    for_weights([&](std::size_t j, std::int64_t) { result[j] += 1; });
    for (double& value : result) value = value > 0 ? value : 1;
    return result;
  }

  double bias(const Values& theta, std::int64_t l) const { return theta[as_size(l * (d_ + 1) + d_)]; }
  double& bias(Values& theta, std::int64_t l) const { return theta[as_size(l * (d_ + 1) + d_)]; }

  /// Makes Σ b = 0, where only differences of biases matter.
  void project(Values& theta) const {
    if (k_ == 1) return;
    double sum = 0;
    for (std::int64_t l = 0; l < k_; ++l) sum += bias(theta, l);
    for (std::int64_t l = 0; l < k_; ++l) bias(theta, l) -= sum / static_cast<double>(k_);
  }

 private:
  double at(std::int64_t i, std::int64_t j) const { return static_cast<double>(rows_.x[as_size(i * d_ + j)]); }
  std::int32_t class_of(std::int64_t i) const { return rows_.classes[as_size(i)]; }
  /// Calls visit(index of θ, column) for all weights, which have a penalty.
  template <class Visit>
  void for_weights(Visit visit) const {
    for (std::int64_t l = 0; l < k_; ++l) {
      for (std::int64_t j = 0; j < d_; ++j) visit(as_size(l * (d_ + 1) + j), j);
    }
  }

  /// `[n, k]`: W (x − mean) + b.
  void logits(const Values& theta, Values& to) const {
    Values offsets(as_size(k_));
    for (std::int64_t l = 0; l < k_; ++l) {
      double of_mean = 0;
      for (std::int64_t j = 0; j < d_; ++j) of_mean += theta[as_size(l * (d_ + 1) + j)] * mean_[as_size(j)];
      offsets[as_size(l)] = bias(theta, l) - of_mean;
    }
    to.resize(as_size(n_ * k_));
    pool_.parallel_for(n_, 8, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        for (std::int64_t l = 0; l < k_; ++l) {
          to[as_size(i * k_ + l)] = dot(rows_.x.data() + i * d_, theta.data() + l * (d_ + 1), d_) + offsets[as_size(l)];
        }
      }
    });
  }

  /// Turns the logits of a row into probabilities. Returns −ln p of its class.
  double to_probabilities(double* z, std::int32_t own) const {
    if (k_ == 1) {
      const double loss = softplus_of_minus(own == 1 ? z[0] : -z[0]);
      z[0] = sigmoid(z[0]);
      return loss;
    }
    const double most = *std::max_element(z, z + k_), of_own = z[own];
    double sum = 0;
    for (std::int64_t l = 0; l < k_; ++l) sum += z[l] = math::exp(z[l] - most);
    for (std::int64_t l = 0; l < k_; ++l) z[l] /= sum;
    return math::log(sum) + most - of_own;
  }

  /// to[j] += Σ_i factors[i · stride] · x[i, j], in the order of the rows.
  void add_rows(std::span<const double> factors, std::int64_t stride, std::span<double> to) const {
    pool_.parallel_for(d_, 64, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = 0; i < n_; ++i) {
        const double factor = factors[as_size(i * stride)];
        const float* const x = rows_.x.data() + i * d_;
        for (std::int64_t j = begin; j < end; ++j) to[as_size(j)] += factor * static_cast<double>(x[j]);
      }
    });
  }

  /// [W, 0] + C Σ_i factors[i] ⊗ [x_i − mean, 1], where W is that of θ and the factors are `[n, k]`.
  Values with_penalty(const Values& theta, const Values& factors) const {
    Values result(size());
    for (std::int64_t l = 0; l < k_; ++l) {
      const std::span<double> row = std::span(result).subspan(as_size(l * (d_ + 1)), as_size(d_));
      add_rows(std::span(factors).subspan(as_size(l)), k_, row);
      double sum = 0;
      for (std::int64_t i = 0; i < n_; ++i) sum += factors[as_size(i * k_ + l)];
      bias(result, l) = c_ * sum;
      for (std::int64_t j = 0; j < d_; ++j) row[as_size(j)] = c_ * (row[as_size(j)] - sum * mean_[as_size(j)]);
    }
    for_weights([&](std::size_t j, std::int64_t) { result[j] += theta[j]; });
    return result;
  }

  const ClassifiedRows& rows_;
  double c_;
  ThreadPool& pool_;
  const std::function<void()>& poll_;
  std::int64_t n_, d_, k_;
  Values mean_, p_{};
};

/// The direction −H⁻¹ g, to `tolerance` of g, by preconditioned conjugate gradients.
Values newton_direction(const PenalizedLoss& loss, const Values& gradient, double tolerance) {
  const Values diagonal = loss.diagonal();
  const auto preconditioned = [&](const Values& r) {
    Values z = r;
    for (std::size_t i = 0; i < z.size(); ++i) z[i] /= diagonal[i];
    loss.project(z);
    return z;
  };
  Values x(gradient.size()), r(gradient.size());
  add_scaled(-1, gradient, r);
  Values z = preconditioned(r), direction = z;
  double rz = dot(r, z);
  const double enough = tolerance * norm(gradient);
  for (std::size_t i = 0; i < 2 * gradient.size() + 10 && norm(r) > enough; ++i) {
    const Values h = loss.curvature(direction);
    const double bend = dot(direction, h);
    if (!(bend > 0)) break;
    add_scaled(rz / bend, direction, x);
    add_scaled(-rz / bend, h, r);
    z = preconditioned(r);
    const double next = dot(r, z);
    for (std::size_t j = 0; j < direction.size(); ++j) direction[j] = z[j] + next / rz * direction[j];
    rz = next;
  }
  return x;
}

/// Moves θ along the direction: the whole way, or half as far until the value falls as the slope promises. Returns the
/// new value; nothing if none of these points is lower.
std::optional<double> step_along(PenalizedLoss& loss, const Values& direction, double slope, double value,
                                 Values& theta) {
  const double noise = 1e-14 * std::abs(value);
  double length = 1;
  for (int i = 0; i < kMostHalvings; ++i, length /= 2) {
    Values next = theta;
    add_scaled(length, direction, next);
    const double found = loss.value(next);
    if (!(found <= value + 1e-4 * length * slope + noise)) continue;
    theta = std::move(next);
    return found;
  }
  loss.value(theta);
  return {};
}

}  // namespace

LogisticFit fit_logistic(const ClassifiedRows& rows, double c, ThreadPool& pool, const std::function<void()>& poll) {
  PenalizedLoss loss(rows, c, pool, poll);
  Values theta(loss.size());
  double value = loss.value(theta);
  Values gradient = loss.gradient(theta);
  const double first = norm(gradient);
  const auto enough = [&] { return std::max(kTolerance * (1 + norm(theta)), 1e-15 * first); };
  LogisticFit fit;
  fit.gradient_norm = first;
  Values best = theta;
  int n_worse = 0;
  while (fit.gradient_norm > enough() && fit.iterations < kMostSteps && n_worse < 3) {
    ++fit.iterations;
    const double own = norm(gradient);
    const Values direction = newton_direction(loss, gradient, std::min(0.1, std::sqrt(own / first)) * 0.1);
    const std::optional<double> next = step_along(loss, direction, dot(gradient, direction), value, theta);
    if (!next) break;
    loss.project(theta);
    value = loss.value(theta);
    gradient = loss.gradient(theta);
    n_worse = norm(gradient) < fit.gradient_norm ? 0 : n_worse + 1;
    if (norm(gradient) < fit.gradient_norm || fit.iterations == 1) {
      fit.gradient_norm = norm(gradient);
      best = theta;
    }
  }
  if (!std::isfinite(fit.gradient_norm)) throw NotFinite("probe", "the weights of the probe are infinite or NaN");
  if (fit.gradient_norm > 1e-5 * (1 + norm(best))) {
    throw BadInput("--C", "the minimum was not reached: the gradient has the norm {:.3g}; lower C", fit.gradient_norm);
  }
  const std::int64_t d = rows.d, k = rows.k();
  for (std::int64_t l = 0; l < k; ++l) {
    const double* const own = best.data() + l * (d + 1);
    double bias = own[d];
    for (std::int64_t j = 0; j < d; ++j) bias -= own[j] * loss.mean()[as_size(j)];
    fit.weight.insert(fit.weight.end(), own, own + d);
    fit.bias.push_back(bias);
  }
  if (k > 1) {  // Σ b = 0 for the rows as they are, not less their mean
    double mean = 0;
    for (const double bias : fit.bias) mean += bias / static_cast<double>(k);
    for (double& bias : fit.bias) bias -= mean;
  }
  return fit;
}

std::vector<double> logits_of(const ClassifiedRows& rows, std::span<const double> weight, std::span<const double> bias,
                              ThreadPool& pool) {
  const std::int64_t k = std::ssize(bias);
  Values logits(as_size(rows.n() * k));
  pool.parallel_for(rows.n(), 8, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t l = 0; l < k; ++l) {
        logits[as_size(i * k + l)] =
            dot(rows.x.data() + i * rows.d, weight.data() + l * rows.d, rows.d) + bias[as_size(l)];
      }
    }
  });
  return logits;
}

}  // namespace vitrine
