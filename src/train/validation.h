// The loss on held-out data. The ranks of a run share the batches.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "metrics/event_file.h"
#include "ranks/ranks.h"
#include "train/learner.h"

namespace vitrine {

struct Validation {
  double nats = 0;  ///< Over all targets; of pairs, the sum of their losses.
  std::int64_t tokens = 0;
  PairSums pairs;
  std::string failure;  ///< Why there is no loss: a value was not finite; "" if there is one.

  double loss() const;  ///< The mean; NaN if there is none.
  /// Also bits per byte, unless the tokens per byte are 0.
  std::vector<Metric> metrics(double tokens_per_byte) const;
};

/// The fraction of pairs whose chosen answer is preferred, and the mean margin.
std::vector<Metric> pair_metrics(const PairSums& sums, const std::string& prefix);

/// Scores batches 0 to n − 1 and adds their losses in this order. Throws Interrupted, PeerLost.
Validation validate(Learner& learner, std::int64_t n, const std::function<Batch(std::int64_t)>& batch_of, Ranks& ranks);

}  // namespace vitrine
