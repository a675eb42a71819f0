// What DictionaryEvaluation sums.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "inspect/dictionary_quality.h"

namespace vitrine {

/// Sums over tokens of functions of y and of the error e = y − ŷ.
class ReconstructionSums {
  static constexpr double kNoNorm = 1e-4;       // below: a ratio of norms is divided by 1
  static constexpr double kNoVariance = 1e-10;  // below: only a perfect reconstruction explains it

 public:
  void add(const float* y, const float* e, std::int64_t n) {
    if (sum_.empty()) sum_.resize(static_cast<std::size_t>(n));
    double yy = 0, zz = 0, yz = 0, ee = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double own = y[i], error = e[i], z = own - error;
      yy += own * own;
      zz += z * z;
      yz += own * z;
      ee += error * error;
      sum_[static_cast<std::size_t>(i)] += own;
    }
    const double norm = std::sqrt(yy), norm_out = std::sqrt(zz);
    sums_.l2_norm_in += norm;
    sums_.l2_norm_out += norm_out;
    sums_.l2_ratio += norm_out / (norm < kNoNorm ? 1 : norm);
    sums_.cossim += yz / (norm * norm_out);
    sums_.mse += ee;
    squares_ += yy;
    squares_out_ += zz;
    products_ += yz;
    ++n_;
  }

  std::int64_t tokens() const { return n_; }
  ReconstructionQuality means() const {
    const auto n = static_cast<double>(n_);
    ReconstructionQuality means = sums_;
    for (double* const mean : {&means.mse, &means.cossim, &means.l2_norm_in, &means.l2_norm_out, &means.l2_ratio}) {
      *mean /= n;
    }
    double variance = squares_ / n;
    for (const double sum : sum_) variance -= sum / n * (sum / n);
    means.explained_variance = 1 - means.mse / variance;
    if (variance < kNoVariance) means.explained_variance = means.mse < kNoVariance ? 1 : 0;
    means.relative_reconstruction_bias = squares_out_ / products_;
    return means;
  }

 private:
  ReconstructionQuality sums_{};
  double squares_ = 0, squares_out_ = 0, products_ = 0;
  std::vector<double> sum_;  // of y
  std::int64_t n_ = 0;
};

/// The losses of a token in the three models.
struct TokenLosses {
  double without = 0, with = 0, ablated = 0, kl_with = 0, kl_ablated = 0;
};

}  // namespace vitrine
