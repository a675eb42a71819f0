// Logistic regression with an L2 penalty, at its minimum, in float64.
//
//   two classes   ½ ‖w‖² + C Σ_i ln(1 + exp(−s_i (w·x_i + b)))      s_i = 1 for class 1, −1 for class 0
//   k classes     ½ ‖W‖² − C Σ_i ln softmax(W x_i + b)[y_i]         of the b that have this minimum, Σ b = 0
//
// The bias has no penalty. Newton's method; its linear systems are solved by conjugate gradients that multiply by the
// Hessian without forming it, so time and memory grow with the number of elements of x, also where rows have more
// elements than there are rows. The mean of x is subtracted first, which changes b alone, and a diagonal
// preconditioner scales the columns. No sum depends on how work is divided, so the bits do not depend on the number of
// threads. Sources: scikit-learn, LogisticRegression (the objective and its defaults); Nocedal & Wright 2006, §7.1.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "parallel/thread_pool.h"

namespace vitrine {

struct ClassifiedRows {
  std::span<const float> x;               ///< `[n, d]`
  std::span<const std::int32_t> classes;  ///< `[n]`, from 0 to n_classes − 1.
  std::int64_t d = 0;
  std::int32_t n_classes = 2;

  std::int64_t n() const { return std::ssize(classes); }
  /// The number of logits of a row.
  std::int64_t k() const { return n_classes == 2 ? 1 : n_classes; }
};

struct LogisticFit {
  std::vector<double> weight;  ///< `[k, d]`
  std::vector<double> bias;    ///< `[k]`
  int iterations = 0;          ///< Newton steps.
  /// The norm of the objective's gradient: the weights are at most this far from the minimum, since the penalty has a
  /// Hessian of 1.
  double gradient_norm = 0;
};

/// `c` is the weight of the losses, C. `poll` is called between products. Throws NotFinite if the weights are not
/// finite, BadInput if the minimum was not reached: C is too large for float64.
LogisticFit fit_logistic(const ClassifiedRows& rows, double c, ThreadPool& pool, const std::function<void()>& poll);

/// `[n, k]`: the logits of all rows.
std::vector<double> logits_of(const ClassifiedRows& rows, std::span<const double> weight, std::span<const double> bias,
                              ThreadPool& pool);

}  // namespace vitrine
