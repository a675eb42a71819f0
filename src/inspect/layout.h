// What a model looks like before any token: which layers are alike, which values its forward makes, of which shapes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "pass/sites.h"

namespace vitrine {

/// Layers of the same config.
struct LayerGroup {
  std::vector<int> layers;  ///< Ascending.

  int first() const { return layers.front(); }
  std::int64_t count() const { return static_cast<std::int64_t>(layers.size()); }
};

/// The groups, in the order of their first layers.
std::vector<LayerGroup> layer_groups(const ModelConfig& config);

/// "0-25", "0, 2, …, 24": the numbers of a group for people.
std::string to_string(const LayerGroup& group);

/// One size of a value: a number, or a letter for what a pass decides: T its tokens, S positions so far, n those of
/// them that chose an expert.
struct Extent {
  char letter = 0;        ///< 0: `size` is the size.
  std::int64_t size = 0;  ///< Added to the letter's number: −1 in [T-1].
};

/// A value of the forward.
struct SiteLayout {
  SiteId site;
  std::vector<Extent> shape;
};

/// The sites of the default set that a model of this config has (of its experts those of one, without a number), layer
/// `layer` standing for all: those before the blocks, those of that layer, those behind, as a forward meets them.
std::vector<SiteLayout> site_layout(const ModelConfig& config, int layer);

/// "[T, 8, 256]"
std::string to_string(const std::vector<Extent>& shape);

}  // namespace vitrine
