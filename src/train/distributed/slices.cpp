#include "train/distributed/slices.h"

#include <algorithm>

#include "base/checked.h"
#include "base/text.h"
#include "tensor/zero_memory.h"
#include "train/optimizer.h"

namespace vitrine {
namespace {

const char* prefix_of(Stack stack) {
  return stack == Stack::only ? "blocks." : stack == Stack::encoder ? "encoder." : "decoder.";
}

/// "blocks.3" or "encoder.3" of a block's parameter; "" for others.
std::string block_of(const std::string& name) {
  for (const Stack stack : {Stack::only, Stack::encoder, Stack::decoder}) {
    const std::string_view prefix = prefix_of(stack);
    if (!name.starts_with(prefix)) continue;
    const std::size_t end = name.find('.', prefix.size());
    if (number_in<int>(std::string_view(name).substr(prefix.size(), end - prefix.size()))) return name.substr(0, end);
  }
  return "";
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

std::optional<std::size_t> Slices::bucket_of(Stack stack, int layer) const {
  const auto it = std::find(blocks_.begin(), blocks_.end(), prefix_of(stack) + std::to_string(layer));
  if (it == blocks_.end()) return {};
  return static_cast<std::size_t>(it - blocks_.begin());
}

void give_back_others(std::span<std::byte> array, std::int64_t element, const Slices& slices, std::size_t bucket,
                      int rank) {
  const Places all = slices.bucket(bucket), own = slices.slice(bucket, rank);
  give_back(Places{all.first, own.first}.of(array, element));
  give_back(Places{own.end, all.end}.of(array, element));
}

}  // namespace vitrine
