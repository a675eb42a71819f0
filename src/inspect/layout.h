// The layout of a model: groups of equal layers, and the values of its forward with their shapes.
#pragma once

#include <string>
#include <vector>

#include "model/config.h"
#include "pass/sites.h"

namespace vitrine {

/// Layers of the same config, which read rows of the same width.
struct LayerGroup {
  std::vector<int> layers;  ///< Ascending.

  int first() const { return layers.front(); }
  std::int64_t count() const { return static_cast<std::int64_t>(layers.size()); }
};

/// The groups, in the order of their first layers.
std::vector<LayerGroup> layer_groups(const StackConfig& config);

/// The layers of a group, abbreviated: "0-25", "0, 2, …, 24".
std::string to_string(const LayerGroup& group);

/// One size of a value: a number, or a letter if it depends on the pass: T tokens of the pass, S positions so far, n
/// tokens that chose an expert.
struct Extent {
  char letter = 0;        ///< 0: the size is `size`.
  std::int64_t size = 0;  ///< Added to the letter: −1 in [T-1].
};

/// A value of the forward.
struct SiteLayout {
  SiteId site;
  std::vector<Extent> shape;
};

/// The sites of the default set in a model of this config, in the order of a forward: those before the blocks, those of
/// layer `layer`, and those after the blocks; in an encoder–decoder also those of the encoder, with its first layer.
/// One expert, without a number, represents all.
std::vector<SiteLayout> site_layout(const ModelConfig& config, int layer);

/// "[T, 8, 256]"
std::string to_string(const std::vector<Extent>& shape);

}  // namespace vitrine
