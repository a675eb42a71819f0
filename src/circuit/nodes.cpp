#include "circuit/nodes.h"

namespace vitrine {

NodeLayout::NodeLayout(std::int64_t n_layers, std::int64_t n_tokens, std::int64_t n_logits,
                       std::span<const FeatureNode> features)
    : n_layers_(n_layers), n_tokens_(n_tokens), n_logits_(n_logits) {
  first_.assign(static_cast<std::size_t>(n_layers * n_tokens) + 1, 0);
  for (const FeatureNode& node : features)
    ++first_[static_cast<std::size_t>(node.layer * n_tokens + node.position) + 1];
  for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
}

RowShape::RowShape(const NodeLayout& layout, std::int64_t layer, std::int64_t t) : n_layers_(layer) {
  for (std::int64_t l = 0; l < layer; ++l) {
    const std::int64_t first = layout.feature(l, 0);
    add(first, layout.feature(l, t + 1) - first);
  }
  for (std::int64_t l = 0; l < layer; ++l) add(layout.error(l, 0), t + 1);
  add(layout.token(0), t + 1);
}

}  // namespace vitrine
