#include "train/slices.h"

#include <algorithm>

#include "base/checked.h"
#include "train/optimizer.h"

namespace vitrine {
namespace {

/// "blocks.3" or "encoder.blocks.3" of a block's parameter; "" for others.
std::string block_of(const std::string& name) {
  const std::size_t blocks = name.find("blocks.");
  return blocks == name.npos ? "" : name.substr(0, name.find('.', blocks + 7));
}

/// Cuts chunks (their ends are given) into parts of about the same size.
std::vector<std::int64_t> cut(std::int64_t first, std::span<const std::int64_t> ends, int n_ranks) {
  std::vector<std::int64_t> cuts = {first};
  for (int r = 1; r < n_ranks; ++r) {
    const std::int64_t ideal = first + (ends.back() - first) * r / n_ranks;
    const auto above = std::lower_bound(ends.begin(), ends.end(), ideal);
    std::int64_t at = *above;
    const std::int64_t below = above == ends.begin() ? first : *std::prev(above);
    if (ideal - below < at - ideal) at = below;
    cuts.push_back(std::max(at, cuts.back()));
  }
  cuts.push_back(ends.back());
  return cuts;
}

}  // namespace

Slices::Slices(std::span<const TrainParam> params, int n_ranks) {
  std::int64_t place = 0, first = 0;
  std::vector<std::int64_t> ends;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const std::int64_t count = params[i].count(), next = place + round_up(count, kParamAlignment);
    for (std::int64_t at = kChunk; at < count; at += kChunk) ends.push_back(place + at);
    ends.push_back(next);
    place = next;
    if (i + 1 < params.size() && block_of(params[i].name) == block_of(params[i + 1].name)) continue;
    blocks_.push_back(block_of(params[i].name));
    cuts_.push_back(cut(first, ends, n_ranks));
    first = place;
    ends.clear();
  }
}

std::optional<std::size_t> Slices::bucket_of_layer(int layer) const {
  const std::string end = "blocks." + std::to_string(layer);
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    if (blocks_[b] == end || blocks_[b] == "decoder." + end) return b;
  }
  return {};
}

}  // namespace vitrine
