// What active features write, by the layer that they write to.
#pragma once

#include <span>
#include <vector>

#include "circuit/clean_run.h"
#include "pass/pass.h"

namespace vitrine {

/// The active features of one layer as writers to the same or a later layer.
class FeatureWriters {
 public:
  /// A feature of the layer at a token.
  struct Use {
    std::int32_t index = 0, position = 0;
    std::int64_t node = 0;
    float factor = 0;  ///< activation · f
  };

  FeatureWriters(const CircuitValues& values, std::int64_t layer);

  /// row[node] += factor · W_dec[index] · gradient[position] of the uses at positions up to `last`; `decoder`
  /// `[d_sae, d]`, `gradient` `[T, d]`. The elements of a row are those of `range`.
  void add(Pass& p, const Param& decoder, const Tensor& gradient, std::int64_t last, const RowShape::Range& range,
           std::span<float> row) const;

 private:
  std::vector<Use> uses_;            // by index, then position
  std::vector<std::size_t> groups_;  // where the uses of an index begin, and the end
};

}  // namespace vitrine
