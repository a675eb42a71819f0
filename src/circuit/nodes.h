// The nodes of an attribution graph, and which of them can have edges into a node.
//
// Columns (sources) are numbered features, errors, tokens, logits:
//
//   [0, F)                features, by layer, position and index
//   F + layer · T + t     errors of transcoders
//   F + L · T + t         tokens
//   F + (L + 1) · T + i   logits
//
// A node of layer l at position t has edges from layers before l, at positions up to t. So the sources of a row are, of
// each layer, one range of columns, and a row is stored as these ranges, one after another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pass/dictionary.h"

namespace vitrine {

/// An active feature of a transcoder at a token.
struct FeatureNode {
  std::int32_t layer = 0, position = 0, index = 0;
  float activation = 0;
};

/// The counts of nodes, and where the features of each token begin.
class NodeLayout {
 public:
  NodeLayout() = default;
  /// `features`: ascending by layer, position and index.
  NodeLayout(std::int64_t n_layers, std::int64_t n_tokens, std::int64_t n_logits,
             std::span<const FeatureNode> features);

  std::int64_t n_layers() const { return n_layers_; }
  std::int64_t n_tokens() const { return n_tokens_; }
  std::int64_t n_logits() const { return n_logits_; }
  std::int64_t n_features() const { return first_.back(); }
  std::int64_t n_nodes() const { return logit(n_logits_); }
  std::int64_t error(std::int64_t layer, std::int64_t t) const { return n_features() + layer * n_tokens_ + t; }
  std::int64_t token(std::int64_t t) const { return error(n_layers_, t); }
  std::int64_t logit(std::int64_t i) const { return token(n_tokens_) + i; }
  /// The first feature of a token in a layer.
  std::int64_t feature(std::int64_t layer, std::int64_t t) const {
    return first_[static_cast<std::size_t>(layer * n_tokens_ + t)];
  }

 private:
  std::int64_t n_layers_ = 0, n_tokens_ = 0, n_logits_ = 0;
  std::vector<std::int64_t> first_ = {0};
};

/// The sources of a node: ranges of columns, which a row has one after another.
class RowShape {
 public:
  struct Range {
    std::int64_t column = 0, count = 0;
    std::int64_t offset = 0;  ///< Of its first element in the row.
  };

  /// Of a node of `layer` at position `t`; logits are of layer L.
  RowShape(const NodeLayout& layout, std::int64_t layer, std::int64_t t);

  std::int64_t size() const { return size_; }
  /// The features and errors of each earlier layer, then the tokens.
  const Range& features(std::int64_t layer) const { return ranges_[static_cast<std::size_t>(layer)]; }
  const Range& errors(std::int64_t layer) const { return ranges_[static_cast<std::size_t>(n_layers_ + layer)]; }
  const Range& tokens() const { return ranges_.back(); }
  std::span<const Range> ranges() const { return ranges_; }

 private:
  void add(std::int64_t column, std::int64_t count) {
    ranges_.push_back({column, count, size_});
    size_ += count;
  }

  std::vector<Range> ranges_;
  std::int64_t n_layers_ = 0;  // those before the node
  std::int64_t size_ = 0;
};

}  // namespace vitrine
