// The choice of active features from pre-activations, row by row in panels of ascending features. Part of
// ops/encode_features.h, which has the formulas.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "pass/dictionary.h"
#include "pass/sparse_rows.h"

namespace vitrine {

/// The k elements of a row with the largest keys above a bound; of equal keys that with the smaller index. Indices
/// ascend.
class TopFeatures {
 public:
  TopFeatures() = default;
  /// Keys are above `bound`.
  TopFeatures(std::int64_t k, float bound)
      : k_(static_cast<std::size_t>(k)), bound_(k > 0 ? bound : std::numeric_limits<float>::infinity()) {}

  /// Whether a key can still be among them. NaN can, so that it is not hidden.
  bool may_take(float key) const { return !(key <= bound_); }
  void take(float key, SparseValue at) {
    if (!(key > bound_)) return;
    chosen_.push_back({key, at});
    if (chosen_.size() >= 2 * k_ + 64) cut();
  }
  /// The elements by index; none are left here.
  std::vector<SparseValue> finish();

 private:
  struct Candidate {
    float key;
    SparseValue at;
  };
  void cut();

  std::size_t k_ = 0;
  float bound_ = 0;
  std::vector<Candidate> chosen_{};
};

/// What is chosen in addition to, or in place of, FeatureSelection, while a dictionary learns.
struct LearnedChoice {
  std::int64_t n_of_batch = 0;  ///< > 0: so many of the largest keys of all rows together, in place of k of each row.
  float bandwidth = 0;          ///< Of `jump`: elements with |p − threshold| < bandwidth / 2 are chosen, too, with
                                ///< value 0 unless they are above it.
};

class FeatureSelector {
 public:
  FeatureSelector(const FeatureSelection& selection, std::int64_t d_sae, std::int64_t n_rows, const Kernels& kernels,
                  const float* gate_bias, const LearnedChoice& learned = {});

  /// The features from `first` on of a row; q is that of gated ones. Rows may be taken at the same time.
  void take(std::int64_t t, std::int64_t first, const float* p, const float* q, std::int64_t n);
  /// Called once for each row, after its last panel.
  void finish(std::int64_t t);
  /// Called between panels, if the choice is of all rows together: drops what cannot be chosen any more.
  void cut_batch(bool is_last);

  std::shared_ptr<const SparseRows> rows() { return std::make_shared<SparseRows>(SparseRows{std::move(rows_)}); }
  /// Copies of the rows, without what their growing lists have reserved.
  void append_to(SparseRows& all) const {
    for (const std::vector<SparseValue>& row : rows_) all.rows.emplace_back(row.begin(), row.end());
  }

 private:
  struct Place {
    float key;
    std::int64_t row, at;  // at: in its row
  };
  bool is_top() const {
    return selection_.kind == FeatureSelection::Kind::topk || selection_.kind == FeatureSelection::Kind::abstopk;
  }
  bool is_of_batch() const { return learned_.n_of_batch > 0; }
  float key_of(std::int64_t feature, float p) const {
    return selection_.norms.empty() ? p : p * selection_.norms[static_cast<std::size_t>(feature)];
  }
  float threshold_of(std::int64_t feature) const {
    return selection_.thresholds[selection_.thresholds.size() > 1 ? static_cast<std::size_t>(feature) : 0];
  }
  void take_top(std::int64_t t, std::int64_t first, const float* p, std::int64_t n);
  void take_of_batch(std::int64_t t, std::int64_t first, const float* p, std::int64_t n);
  void take_jump(std::vector<SparseValue>& row, std::int64_t first, const float* p, std::int64_t n) const;
  void take_of_groups(std::vector<SparseValue>& row, std::int64_t first, const float* p, std::int64_t n) const;

  const FeatureSelection& selection_;
  std::int64_t d_sae_;
  const Kernels& kernels_;
  const float* gate_bias_;
  LearnedChoice learned_;
  std::vector<std::vector<SparseValue>> rows_;
  std::vector<TopFeatures> top_;  // by row, of a top-k
  float batch_bound_ = 0;         // keys of a choice from all rows are above it, or equal
};

/// Pre-activations of features that have been inactive for long, from which an auxiliary loss is computed.
class DeadSelector {
 public:
  /// `features` ascend. k > 0: the k largest keys of each row, of any sign; else all p that are below their thresholds.
  DeadSelector(const FeatureSelection& selection, std::span<const std::int32_t> features, std::int64_t k,
               std::int64_t n_rows);

  void take(std::int64_t t, std::int64_t first, const float* p, std::int64_t n);
  void finish(std::int64_t t);
  std::shared_ptr<const SparseRows> rows() { return std::make_shared<SparseRows>(SparseRows{std::move(rows_)}); }

 private:
  const FeatureSelection& selection_;
  std::span<const std::int32_t> features_;
  std::int64_t k_;
  std::vector<std::vector<SparseValue>> rows_;
  std::vector<TopFeatures> top_;
};

}  // namespace vitrine
