// How far a model is from another one that it was made of: by its predictions, and layer by layer.
//
//   KL(p ‖ q) = Σ p (log p − log q)     p: the other model's next-token probabilities; q: the model's own
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "generate/context.h"

namespace vitrine {

struct KlStatistics {
  double mean = 0;
  double stderr_of_mean = 0;
  double median = 0, p90 = 0, p99 = 0, p999 = 0;  ///< Interpolated between the two nearest values, as NumPy does.
  double max = 0;
};

struct ModelDifference {
  double nats = 0;      ///< Σ −log p of the targets, by the other model.
  double own_nats = 0;  ///< By the model.
  KlStatistics kl;      ///< In nats.
  double same_top = 0;  ///< The fraction of positions at which both have the same most likely token.
  double dp_rms = 0;    ///< The root mean square difference of the probabilities of the targets.
  std::int64_t tokens = 0;
  /// Of each layer, if requested: ‖own − other‖ / ‖other‖ of the stream after it, over all rows.
  std::vector<double> resid_errors;
};

class WindowRun;

class ModelComparison {
 public:
  /// With `layers`, compares the streams as well. Keeps references to its arguments. Throws BadInput if the models have
  /// other vocabularies, or with `layers` other layers; Unsupported for layers without a stream.
  ModelComparison(const GenerateContext& own, const GenerateContext& other, bool layers);

  /// Compares the predictions of ids [first_row + 1, end), each from the ids before it. Memory: the streams of the
  /// window, not its logits. Returns Σ −log q of these ids.
  double add(std::span<const std::int32_t> ids, std::int64_t first_row);

  ModelDifference result() const;

 private:
  void compare_streams(WindowRun& own, WindowRun& other);
  void compare_rows(WindowRun& own, WindowRun& other, std::span<const std::int32_t> targets, std::int64_t first,
                    std::int64_t n);

  const GenerateContext &own_, &other_;
  bool layers_;
  ModelDifference sums_;
  double square_of_dp_ = 0;
  std::int64_t n_same_top_ = 0;
  std::vector<double> kls_;
  std::vector<double> differences_, sizes_;  // of the streams, squared
};

/// The value below which the fraction `at` of the sorted values is; interpolated.
double percentile(std::span<const double> sorted, double at);

}  // namespace vitrine
