// Which rank adds, and may keep, which elements of the parameters: the shards of ZeRO.
//
// Parameters, gradients and moments have the same places: element i of a parameter that begins at place p is at p + i
// (kParamAlignment). The parameters of a block form a bucket, those before, between and after the blocks others. Each
// bucket is cut into one slice per rank, at the ends of the optimizer's chunks, so that a bucket whose gradients are
// ready keeps all ranks busy.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pass/sites.h"
#include "train/trainable.h"

namespace vitrine {

constexpr std::int64_t kFloatBytes = sizeof(float);

/// A range of places.
struct Places {
  std::int64_t first = 0, end = 0;

  std::int64_t size() const { return end - first; }
  /// The part of an array that has `element` bytes for each place.
  std::span<std::byte> of(std::span<std::byte> array, std::int64_t element) const {
    return array.subspan(static_cast<std::size_t>(first * element), static_cast<std::size_t>(size() * element));
  }
};

class Slices {
 public:
  Slices(std::span<const TrainParam> params, int n_ranks);

  /// The number of buckets, in the order of the parameters.
  std::size_t buckets() const { return cuts_.size(); }
  Places bucket(std::size_t b) const { return {cuts_[b].front(), cuts_[b].back()}; }
  Places slice(std::size_t b, int rank) const {
    return {cuts_[b][static_cast<std::size_t>(rank)], cuts_[b][static_cast<std::size_t>(rank) + 1]};
  }
  /// Whether a bucket has the parameters of a block.
  bool is_block(std::size_t b) const { return !blocks_[b].empty(); }
  /// The bucket of a block's parameters, if it has one of its own.
  std::optional<std::size_t> bucket_of(Stack stack, int layer) const;

 private:
  std::vector<std::string> blocks_;              // of each bucket: "blocks.3", "encoder.3", "decoder.3", or ""
  std::vector<std::vector<std::int64_t>> cuts_;  // of each bucket: where the slices begin, and the end
};

/// Gives back the memory of a bucket but that of this rank's slice (tensor/zero_memory.h). `element`: bytes per place.
void give_back_others(std::span<std::byte> array, std::int64_t element, const Slices& slices, std::size_t bucket,
                      int rank);

}  // namespace vitrine
