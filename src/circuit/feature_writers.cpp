#include "circuit/feature_writers.h"

#include <algorithm>

namespace vitrine {

FeatureWriters::FeatureWriters(const CircuitValues& values, std::int64_t layer) {
  const NodeLayout& layout = values.layout;
  const std::vector<float>& factors = values.transcoders[static_cast<std::size_t>(layer)]->decoder_factors;
  for (std::int64_t node = layout.feature(layer, 0); node < layout.feature(layer, layout.n_tokens()); ++node) {
    const FeatureNode& feature = values.features[static_cast<std::size_t>(node)];
    const float f = factors.empty() ? 1.0f : factors[static_cast<std::size_t>(feature.index)];
    uses_.push_back({feature.index, feature.position, node, feature.activation * f});
  }
  std::ranges::sort(uses_, [](const Use& a, const Use& b) {
    return a.index != b.index ? a.index < b.index : a.position < b.position;
  });
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    if (i == 0 || uses_[i].index != uses_[i - 1].index) groups_.push_back(i);
  }
  groups_.push_back(uses_.size());
}

void FeatureWriters::add(Pass& p, const Param& decoder, const Tensor& gradient, std::int64_t last,
                         const RowShape::Range& range, std::span<float> row) const {
  const std::int64_t d = decoder.shape[1], n_groups = std::ssize(groups_) - 1;
  if (n_groups == 0) return;
  const std::int64_t of_group = std::ssize(uses_) * d / n_groups + 1;
  const ArenaScope scope(p.arena);
  const Tensor rows = p.tensor({p.pool.size(), d});
  p.parallel_for(n_groups, ExecutionContext::kOperationsPerThread / of_group + 1,
                 [&](std::int64_t begin, std::int64_t end, int thread) {
                   for (std::int64_t group = begin; group < end; ++group) {
                     const std::size_t first = groups_[static_cast<std::size_t>(group)];
                     const std::size_t after = groups_[static_cast<std::size_t>(group) + 1];
                     if (uses_[first].position > last) continue;
                     p.widen(decoder.view, uses_[first].index, d, rows.row(thread));
                     for (std::size_t i = first; i < after && uses_[i].position <= last; ++i) {
                       const Use& use = uses_[i];
                       const float effect = p.kernels.dot(rows.row(thread), gradient.data + use.position * d, d);
                       row[static_cast<std::size_t>(use.node - range.column + range.offset)] += use.factor * effect;
                     }
                   }
                 });
}

}  // namespace vitrine
